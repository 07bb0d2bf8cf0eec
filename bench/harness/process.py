"""Processes that a run starts and ends, each by its own id, and their CPU and memory."""

import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    """A port on which nothing listens at the moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def program(name):
    """The path of a program, in PATH or in the folders that Debian leaves out of it."""
    folders = os.environ["PATH"].split(":") + ["/usr/sbin", "/usr/local/sbin"]
    folders += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    for folder in folders:
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    raise SystemExit(f"bench: {name} is not installed")


class Process:
    """A process with all its children, pinned to a core."""

    def __init__(self, argv, core, log, env=None, user=None):
        self.argv = argv
        account = pwd.getpwnam(user) if user and os.getuid() == 0 else None
        self.child = subprocess.Popen(
            ["taskset", "-c", str(core), *argv],
            stdin=subprocess.DEVNULL, stdout=open(log, "ab"), stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})}, start_new_session=True,
            user=account and account.pw_uid, group=account and account.pw_gid,
        )
        self.log = log

    def wait_for_port(self, port, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.child.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return self
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"bench: {self.argv[0]} does not listen; see {self.log}:\n"
                         + Path(self.log).read_text(errors="replace")[-2000:])

    def tree(self):
        """The ids of the process and its descendants."""
        found, todo = [], [self.child.pid]
        while todo:
            pid = todo.pop()
            try:
                tasks = list(Path(f"/proc/{pid}/task").iterdir())
                todo += [int(c) for t in tasks for c in (t / "children").read_text().split()]
                found.append(pid)
            except OSError:
                pass
        return found

    def cpu_seconds(self):
        """User and system time so far, children that have ended included."""
        total = 0
        for pid in self.tree():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15]))
            except OSError:
                pass
        return total / TICKS

    def memory_mb(self):
        """Resident memory now and at its peak, in MB (1,000,000 bytes)."""
        now = peak = 0
        for pid in self.tree():
            try:
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    now += int(line.split()[1]) if line.startswith("VmRSS") else 0
                    peak += int(line.split()[1]) if line.startswith("VmHWM") else 0
            except OSError:
                pass
        return {"now": round(now * 1.024e-3, 1), "peak": round(peak * 1.024e-3, 1)}

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                for pid in self.tree():
                    os.kill(pid, signal.SIGKILL)
                self.child.wait()


class Fleet:
    """All processes of a run. They end in reverse order, also after an error."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def start(self, *arguments, port=None, **options):
        process = Process(*arguments, **options)
        self.processes.append(process)
        return process.wait_for_port(port) if port else process

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop()

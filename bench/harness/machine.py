"""The hardware and the versions of a run. Nothing identifies the machine."""

import os
import platform
import re
import subprocess
from pathlib import Path

from .process import program


def first_line(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def version(*argv):
    found = re.search(r"\d+(\.\d+)+", first_line(program(argv[0]), *argv[1:]))
    return found.group(0) if found else "unknown"


def describe():
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1))
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"],
                             capture_output=True, text=True).stdout.strip()
    return {
        "cores": os.cpu_count(),
        "cpu": cpu.group(1) if cpu else "unknown",
        "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release().split("-")[0],
        "commit": first_line("git", "rev-parse", "--short=12", "HEAD")
        + (" with changes" if changed else ""),
        "versions": {
            "rustc": version("rustc", "--version"),
            "nginx": version("nginx", "-v"),
            "varnish": version("varnishd", "-V"),
            "postgres": version("postgres", "--version"),
            "redis": version("redis-server", "--version"),
            "wrk": version("wrk", "-v"),
            "h2load": version("h2load", "--version"),
        },
    }


def load_average():
    return os.getloadavg()[0]

"""Load generators, on the load's core: wrk, at full speed or at a fixed rate, and h2load, which
speaks HTTP/2, too. pgbench loads the database alone."""

import json
import os
import re
import subprocess
from pathlib import Path

from .process import program
from .stores import LOAD_CORE

CONNECTIONS = 64
SCRIPT = Path(__file__).parent.parent / "load" / "hits.lua"
PROTOCOLS = {"HTTP/1.1": "--h1", "HTTP/2": "--npn-list=h2"}


def lines_file(folder, name, lines):
    """A file of the requests that wrk sends in turn; `lines` are tuples (target, key, header)."""
    file = folder / f"{name}.requests"
    file.write_text("".join(f"{target} {key} {extra}\n".rstrip(" ") if extra
                            else f"{target} {key}\n" for target, key, extra in lines))
    return file


def run(core, name, *arguments):
    """The output of a program on this core, and the seconds of processor time that it took."""
    argv = ["taskset", "-c", str(core), program(name), *map(str, arguments)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"bench: {name} fails with status {child.returncode}:\n{output[-2000:]}")
    return output, usage.ru_utime + usage.ru_stime


def whole(seconds):
    return max(1, round(seconds))


def wrk(port, requests, connections=CONNECTIONS, seconds=5.0, per_second=None):
    """Without a rate a closed loop: each connection sends its next request after its response.
    Latencies are those of the requests that were sent, so a stall hides the requests it kept from
    being sent (coordinated omission); fixed rates tell more about latency."""
    output, spent = run(
        LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{whole(seconds)}s", "--timeout", "5s",
        "--latency", "-s", SCRIPT, f"http://127.0.0.1:{port}/", "--", requests,
        *([per_second] if per_second else []))
    found = [line for line in output.splitlines() if line.startswith("JSON ")]
    result = json.loads(found[0][5:])
    result["per_second"] = round(result["requests"] / result["seconds"], 1)
    result["load_us"] = round(spent / max(1, result["requests"]) * 1e6, 2)
    return result


def h2load(url, key, seconds, folder, per_second=None, protocol="HTTP/1.1"):
    """A closed loop, or a fixed rate, spread evenly over the connections. A connection sends its
    next request no before the response to the previous one, so a stall longer than connections ÷
    rate is seen by fewer requests than would have arrived during it."""
    log = folder / "h2load.log"
    log.unlink(missing_ok=True)
    rate = [f"--rps={per_second / CONNECTIONS:.3f}"] if per_second else []
    run(LOAD_CORE, "h2load", PROTOCOLS[protocol], f"-c{CONNECTIONS}", "-t1", *rate,
        f"-D{whole(seconds)}", f"--log-file={log}", "-H", f"X-API-Key: {key}", url)
    taken, bad = [], 0
    for line in log.read_text().splitlines():
        _, status, took = line.split()
        taken.append(int(took))
        bad += status != "200"
    taken.sort()
    at = lambda share: taken[min(len(taken) - 1, int(len(taken) * share))] if taken else None
    return {"requests": len(taken), "per_second": round(len(taken) / whole(seconds)),
            "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "not_200": bad,
            "broken": 0}


def negotiated(url, key, protocol):
    """The TLS version, cipher and protocol that h2load and a server agree on."""
    output, _ = run(LOAD_CORE, "h2load", PROTOCOLS[protocol], "-n1", "-H", f"X-API-Key: {key}", url)
    found = [re.search(f"^{name}: (.+)", output, re.M)
             for name in ("TLS Protocol", "Cipher", "Application protocol")]
    return ", ".join(match.group(1) if match else "none" for match in found)


def pgbench(postgres, database, statements, folder, mode, clients, seconds, core, per_second=None):
    """Transactions of `statements` (without parameters, equally likely) over `clients`
    connections, at full speed or at a fixed rate."""
    files = []
    for number, text in enumerate(statements):
        file = folder / f"pgbench-{database}-{number}.sql"
        file.write_text(text.strip().rstrip(";") + ";\n")
        files += ["-f", file]
    rate = ["-R", per_second] if per_second else []
    output, _ = run(core, "pgbench", "-n", "-M", mode, f"-c{clients}", "-j1", *rate,
                    f"-T{whole(seconds)}", "-U", "postgres", "-h", "127.0.0.1", "-p",
                    postgres.port, *files, database)
    done = int(re.search(r"actually processed: (\d+)", output).group(1))
    return {"requests": done, "not_200": 0, "broken": 0,
            "per_second": float(re.search(r"tps = ([\d.]+)", output).group(1)) if done else 0}

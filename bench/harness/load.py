"""Load generators, on the load's core: wrk at full speed, h2load at fixed rates."""

import json
import subprocess
from pathlib import Path

from .process import program
from .stores import LOAD_CORE

SCRIPT = Path(__file__).parent.parent / "load" / "hits.lua"


def lines_file(folder, name, lines):
    """A file of the requests that wrk sends in turn; `lines` are tuples (target, key, header)."""
    file = folder / f"{name}.requests"
    file.write_text("".join(f"{target} {key} {extra}\n".rstrip(" ") if extra
                            else f"{target} {key}\n" for target, key, extra in lines))
    return file


def wrk(port, requests, connections=64, seconds=5.0):
    """Closed loop: each connection sends its next request after its response. Latencies are
    those of the requests that were sent, so a stall hides the requests it kept from being sent
    (coordinated omission); fixed rates tell more about latency."""
    argv = ["taskset", "-c", str(LOAD_CORE), program("wrk"), "-t1", f"-c{connections}",
            f"-d{max(1, round(seconds))}s", "--timeout", "5s", "--latency", "-s", str(SCRIPT),
            f"http://127.0.0.1:{port}/", "--", str(requests)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = [line for line in done.splitlines() if line.startswith("JSON ")]
    result = json.loads(found[0][5:])
    result["per_second"] = round(result["requests"] / result["seconds"], 1)
    return result


def paced(port, target, key, per_second, seconds, folder, connections=64):
    """A fixed rate, spread evenly over the connections. A connection sends its next request no
    before the response to the previous one, so a stall longer than connections/rate is seen by
    fewer requests than would have arrived during it."""
    log = folder / "h2load.log"
    log.unlink(missing_ok=True)
    argv = ["taskset", "-c", str(LOAD_CORE), program("h2load"), "--h1", f"-c{connections}", "-t1",
            f"--rps={per_second / connections:.3f}", f"-D{max(1, round(seconds))}",
            f"--log-file={log}", "-H", f"X-API-Key: {key}", f"http://127.0.0.1:{port}{target}"]
    subprocess.run(argv, check=True, capture_output=True)
    taken, bad = [], 0
    for line in log.read_text().splitlines():
        _, status, took = line.split()
        taken.append(int(took))
        bad += status != "200"
    taken.sort()
    at = lambda share: taken[min(len(taken) - 1, int(len(taken) * share))] if taken else None
    return {"asked_per_second": round(per_second), "per_second": round(len(taken) / seconds),
            "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "not_200": bad}


def pgbench(postgres, database, statements, folder, mode, clients, seconds, core):
    """Transactions a second of `statements` (without parameters, equally likely) over `clients`
    connections."""
    files = []
    for number, text in enumerate(statements):
        file = folder / f"pgbench-{number}.sql"
        file.write_text(text.strip().rstrip(";") + ";\n")
        files += ["-f", str(file)]
    argv = ["taskset", "-c", str(core), program("pgbench"), "-n", "-M", mode, f"-c{clients}",
            "-j1", f"-T{max(1, round(seconds))}", "-U", "postgres", "-h", "127.0.0.1",
            "-p", str(postgres.port), *files, database]
    done = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    tps = [line for line in done.splitlines() if line.startswith("tps = ")]
    return float(tps[0].split()[2])

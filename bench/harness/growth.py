"""What grows with the registry, the walk, the replicas, the connections and the keys."""

import statistics
import threading
import time

from . import contestants, load, rounds
from .contestants import LONG
from .http import get
from .rounds import Mode
from .side_by_side import KEYS_LIMIT, MOST, PAGE
from .stores import api_key

QUIET = {"LOG__LEVEL": "warn"}


def of_genes(fleet, folder, binaries, postgres, redis, sizes, seconds):
    """Registries of these sizes, side by side: a hit, and walks to far offsets."""
    found, modes, replicas, key = {}, [], {}, api_key("one", 1)
    for genes in sizes:
        database = f"genes_{genes}"
        begun = time.monotonic()
        postgres.registry(database, genes)
        found[genes] = {"seed_seconds": round(time.monotonic() - begun, 1)}
        postgres.add_keys(database, [(key, MOST)])
        replicas[genes] = contestants.service(
            fleet, folder, binaries["service"], f"g{genes}", postgres.url(database), redis.url,
            {**LONG, **QUIET})
        file = load.lines_file(folder, f"g{genes}", [("/v1/genes?limit=20", key, "")])
        modes.append(Mode(f"{genes} genes", replicas[genes], file))
        print(f"  {genes} genes: loaded in {found[genes]['seed_seconds']} s", flush=True)
    costs = rounds.medians(rounds.run(modes, 3, seconds))
    for genes in sizes:
        found[genes]["hit_cpu_us"] = costs[f"{genes} genes"]["cpu_us"]
        found[genes]["walks_ms"] = walks(replicas[genes].port, key, genes)
        print(f"  {genes} genes: a walk to offset, ms: {found[genes]['walks_ms']}", flush=True)
        replicas[genes].process.stop()
    return found


def walks(port, key, genes):
    """Milliseconds until a page far down is answered: the total is known, the page is not."""
    found = {}
    for offset in (0, 1_000, 100_000, 900_000):
        if offset < genes:
            times = [timed(port, f"/v1/genes?limit=20&offset={offset + n}", key)
                     for n in range(1, 6)]
            found[offset] = round(statistics.median(times), 1)
    return found


def timed(port, target, key):
    begun = time.monotonic()
    status, _, _ = get(port, target, key)
    taken = (time.monotonic() - begun) * 1000
    return taken if status == 200 else float("nan")


def of_connections(setting, counts, seconds):
    file = setting.requests("connections", [(PAGE, setting.key, "")])
    modes = [Mode(f"{count} connections", setting.quiet, file, connections=count)
             for count in counts]
    return rounds.medians(rounds.run(modes, 1, seconds))


def of_keys(setting, postgres, database, counts, seconds):
    """Keys in turn, all of which the replica has got to know before."""
    found = {}
    keys = [api_key("g", number) for number in range(max(counts))]
    postgres.add_keys(database, [(key, KEYS_LIMIT) for key in keys])
    for count in sorted(counts):
        # One key alone has the largest limit.
        lines = [(PAGE, key, "") for key in keys[:count]] if count > 1 else [
            (PAGE, setting.key, "")]
        requests = setting.requests("grown-keys", lines)
        took = get_to_know(setting.quiet.port, requests, count)
        mode = Mode(f"{count} keys", setting.quiet, requests)
        result = rounds.medians(rounds.run([mode], 3, seconds))[mode.name]
        found[count] = {**result, "known_after_s": round(took, 1)}
    return found


def get_to_know(port, requests, count):
    """Seconds until each key has been let in: a second's load asks for all of them, or some."""
    begun, asked = time.monotonic(), 0
    while asked < count:
        result = load.wrk(port, requests, seconds=max(1, count / 10_000))
        asked += result["requests"] - result["not_200"]
    return time.monotonic() - begun


def of_replicas(setting, counts, seconds):
    """Replicas on one core, each with its own load and the same key."""
    found = {}
    file = setting.requests("replicas", [(PAGE, setting.key, "")])
    replicas = [setting.replica(f"r{number}", **LONG, **QUIET) for number in range(max(counts))]
    for count in counts:
        used, results = replicas[:count], []
        for replica in used:
            load.wrk(replica.port, file, seconds=1)
        spent = sum(replica.process.cpu_seconds() for replica in used)
        share = lambda port: results.append(load.wrk(port, file, 64 // count, seconds))
        threads = [threading.Thread(target=share, args=(replica.port,)) for replica in used]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        spent = sum(replica.process.cpu_seconds() for replica in used) - spent
        requests = sum(result["requests"] for result in results)
        found[count] = {"cpu_us": round(spent / requests * 1e6, 2),
                        "per_second": round(sum(result["per_second"] for result in results)),
                        "p99_us": max(result["p99_us"] for result in results)}
        print(f"  {count} replicas: {found[count]}", flush=True)
    [replica.process.stop() for replica in replicas]
    return found

"""Costs by the number of genes, the offset, and the numbers of replicas, connections and keys."""

import statistics
import threading
import time

from . import load, rounds
from .servers import LONG_AGES, WITHOUT_LOG
from .http import get
from .rounds import Mode
from .side_by_side import KEYS_LIMIT, MAX_LIMIT, PAGE
from .stores import api_key


def of_genes(setting, sizes, measure):
    """Registries of these sizes, side by side: the cost of a hit, and pages at large offsets."""
    found, modes = {}, {}
    for genes in sizes:
        database, begun = f"genes_{genes}", time.monotonic()
        setting.postgres.registry(database, genes)
        found[genes] = {"seed_seconds": round(time.monotonic() - begun, 1)}
        setting.postgres.add_keys(database, [(setting.key, MAX_LIMIT)])
        replica = setting.service.replica(f"g{genes}", database, **LONG_AGES, **WITHOUT_LOG)
        file = setting.requests(f"g{genes}", [("/v1/genes?limit=20", setting.key, "")])
        modes[genes] = Mode(f"growth: {genes} genes", replica, file)
        print(f"  {genes} genes: loaded in {found[genes]['seed_seconds']} s", flush=True)
    costs = measure(modes.values())
    for genes, mode in modes.items():
        found[genes]["hit_cpu_us"] = costs[mode.name]["cpu_us"]
        found[genes]["walks_ms"] = deep_pages(mode.server.port, setting.key, genes)
        print(f"  {genes} genes: a page at offset, ms: {found[genes]['walks_ms']}", flush=True)
        mode.server.process.stop()
    return found


def deep_pages(port, key, genes):
    """Milliseconds until a page at each offset is served: the total is cached, the page is not."""
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
    modes = [Mode(f"{count} connections", setting.service.quiet, file, connections=count)
             for count in counts]
    return rounds.medians(rounds.run(modes, 1, seconds))


def of_keys(setting, counts, measure):
    """Requests with these numbers of keys in turn; the replica has loaded all keys before."""
    replica, found, modes = setting.service.quiet, {}, {}
    keys = [api_key("g", number) for number in range(max(counts))]
    setting.postgres.add_keys(setting.database, [(key, KEYS_LIMIT) for key in keys])
    for count in sorted(counts):
        # A single key needs the largest limit.
        used = keys[:count] if count > 1 else [setting.key]
        requests = setting.requests(f"grown-keys-{count}", [(PAGE, key, "") for key in used])
        found[count] = {"known_after_s": round(load_keys(replica.port, requests, count), 1)}
        modes[count] = Mode(f"growth: {count} keys", replica, requests)
    costs = measure(modes.values())
    return {count: {**costs[mode.name], **found[count]} for count, mode in modes.items()}


def load_keys(port, requests, count):
    """Seconds until each key has been admitted, under load with all keys in turn."""
    begun, admitted = time.monotonic(), 0
    while admitted < count:
        result = load.wrk(port, requests, seconds=max(1, count / 10_000))
        admitted += result["requests"] - result["not_200"]
    return time.monotonic() - begun


def of_replicas(setting, counts, seconds):
    """Replicas that share one core, each with its own load, all with the same key."""
    found = {}
    file = setting.requests("replicas", [(PAGE, setting.key, "")])
    replicas = [setting.service.replica(f"r{number}", **LONG_AGES, **WITHOUT_LOG)
                for number in range(max(counts))]
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

"""Rounds: every mode once, then every mode again, so that drift affects all of them alike."""

import statistics
import sys
import time

from .load import CONNECTIONS, wrk


class Mode:
    """One server under one kind of load: `load(seconds)`, by default wrk with a file of requests.
    `source`: where the service must find nearly all responses. `last`: the result of the last
    round."""

    def __init__(self, name, server, requests=None, expect=200, before=None,
                 connections=CONNECTIONS, load=None, source=None):
        self.name, self.server, self.expect, self.before = name, server, expect, before
        self.source = source
        self.load = load or (lambda seconds, per_second=None: wrk(
            server.port, requests, connections, seconds, per_second))
        self.last = None


def measure(mode, seconds):
    if mode.before:
        mode.before()
    # A warm-up would cache the responses.
    if mode.source != "miss":
        mode.load(1)
    server = mode.server
    sources, clock, before = server.sources(), time.monotonic(), server.cpu_seconds()
    result = mode.load(seconds)
    clock, after = time.monotonic() - clock, server.cpu_seconds()
    truncate(server)
    for name in after:
        spent = after[name] - before[name]
        result[f"{name}_us"] = round(spent / max(1, result["requests"]) * 1e6, 2)
    result["busy"] = round((after["cpu"] - before["cpu"]) / clock, 2)
    result["memory_mb"] = server.process.memory_mb()["peak"]
    result |= shares(sources, server.sources())
    check(mode, result)
    mode.last = result
    return result


def shares(before, after):
    """The share of the responses that was found in each source."""
    found = {source: count - before.get(source, 0) for source, count in after.items()}
    total = max(1, sum(found.values()))
    return {f"from_{source}": round(count / total, 4) for source, count in found.items()}


def check(mode, result):
    """Reports a result that is not what the mode is for."""
    good = result["requests"] - (result["not_200"] if mode.expect == 200 else 0)
    from_elsewhere = mode.source and result[f"from_{mode.source}"] < 0.99
    if result["broken"] or from_elsewhere or good < result["requests"] * 0.999:
        print(f"bench: {mode.name}: {result}", file=sys.stderr)


def truncate(server):
    """Logs are written as usual, and emptied between rounds."""
    for log in {server.process.log, server.process.log.parent / "access.log"}:
        if log.exists():
            with open(log, "r+b") as file:
                file.truncate(0)


def run(modes, rounds, seconds):
    """All results by mode."""
    results = {mode.name: [] for mode in modes}
    for number in range(rounds):
        for mode in modes:
            result = measure(mode, seconds)
            results[mode.name].append(result)
            print(f"  round {number + 1}/{rounds}  {mode.name:44} {result['cpu_us']:8.2f} µs"
                  f"  {result['per_second']:10.0f}/s  p99 {result.get('p99_us', '-')} µs",
                  flush=True)
    return results


def medians(results):
    """The median of each figure, and the spread of the cost: (highest - lowest) / median."""
    summary = {}
    for name, rounds in results.items():
        figures = {key: statistics.median(r.get(key, 0) for r in rounds) for key in rounds[0]}
        costs = [r["cpu_us"] for r in rounds]
        figures["spread"] = round((max(costs) - min(costs)) / max(figures["cpu_us"], 0.01), 3)
        summary[name] = figures
    return summary

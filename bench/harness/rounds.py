"""Rounds: every mode once, then every mode again, so that drift affects all of them alike."""

import statistics
import sys
import time

from .load import wrk


class Mode:
    """One server under one kind of load."""

    def __init__(self, name, server, requests, expect=200, before=None, also=(), connections=64):
        self.name, self.server, self.requests = name, server, requests
        self.expect, self.before, self.also = expect, before, also
        self.connections = connections


def measure(mode, seconds):
    if mode.before:
        mode.before()
    port, processes = mode.server.port, [mode.server.process, *mode.also]
    if mode.expect != "miss":
        wrk(port, mode.requests, mode.connections, seconds=1)
    clock, spent = time.monotonic(), sum(process.cpu_seconds() for process in processes)
    result = wrk(port, mode.requests, mode.connections, seconds)
    clock = time.monotonic() - clock
    spent = sum(process.cpu_seconds() for process in processes) - spent
    truncate(mode.server)
    good = result["requests"] - (result["not_200"] if mode.expect in (200, "miss") else 0)
    if result["broken"] or good < result["requests"] * 0.999:
        print(f"bench: {mode.name}: {result}", file=sys.stderr)
    result["cpu_us"] = round(spent / max(1, result["requests"]) * 1e6, 2)
    result["busy"] = round(spent / clock, 2)
    result["memory_mb"] = mode.server.process.memory_mb()["peak"]
    return result


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
                  f"  {result['per_second']:10.0f}/s  p99 {result['p99_us']} µs", flush=True)
    return results


def medians(results):
    """The median of each figure, and the spread of the cost: (highest - lowest) / median."""
    summary = {}
    for name, rounds in results.items():
        figures = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        costs = [r["cpu_us"] for r in rounds]
        figures["spread"] = round((max(costs) - min(costs)) / max(figures["cpu_us"], 0.01), 3)
        summary[name] = figures
    return summary

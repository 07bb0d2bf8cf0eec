"""The report of a run: tables in Markdown, and plots."""

import math
from pathlib import Path

from . import goals
from .misses import load_share
from .plot import Line, chart
from .side_by_side import BEFORE_BOLT


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |",
             "|---" + "|---:" * (len(heads) - 1) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def latencies(figures):
    return [f"{figures[name]:,.0f}" for name in ("p50_us", "p99_us", "p999_us")]


def markdown(result):
    parts = [head, met_goals, beside_reference, beside_before_bolt, side_by_side, stores, mixed, misses, fixed, paced,
             growth]
    return "\n".join(line for part in parts for line in part(result)) + "\n"


def head(result):
    machine, build = result["machine"], result["build"]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    return [
        f"# Measured at {build['commit']}", "",
        f"Profile `{build['profile']}`. {machine['cores']} cores of {machine['cpu']},"
        f" {machine['memory_gb']} GB, Linux {machine['kernel']}; {versions}. Server on core 1, load,"
        f" Redis and Postgres on core 0. {result['rounds']} rounds in turn of {result['seconds']} s,"
        f" 64 connections; medians. {result['minutes']} minutes; load average before and after:"
        f" {result['load_average_before']:.1f}, {result['load_average_after']:.1f}.", ""]


def interval(found):
    if found.low == found.high:
        return ""
    return f"{found.low:.2f} to {found.high:.2f}" if found.high < math.inf else "one round"


def verdict(goal):
    if goal.interval.high == math.inf:
        return "undecided"
    return "yes" if goals.is_met(goal) else "**no**"


def met_goals(result):
    rows = [(goal.label, f"≤ {goal.limit:,}", f"{goal.interval.mean:,.2f}",
             interval(goal.interval), verdict(goal)) for goal in goals.goals(result)]
    return ["## Goals", "", "Geometric means of the ratios within each round. A goal is met if the"
            " upper end of the 95 % interval is not above the limit.", "",
            *table(("goal", "limit", "measured", "95 % interval", "met"), rows)]


def beside_reference(result):
    runs, rows = result["runs"], []
    for name in runs:
        if "1.0.0" in name:
            ours = name.replace("1.0.0", "service")
            found = goals.ratio(runs, goals.cost(ours), goals.cost(name))
            rows.append((ours, f"{found.mean:.2f}", interval(found)))
    return ["## Beside 1.0.0", "", "Processor time of a request ÷ that of 1.0.0 in the same"
            " rounds.", "", *table(("load", "ratio", "95 % interval"), rows)]


def beside_before_bolt(result):
    ours, before = (f"{name}: {goals.PAGE}" for name in ("service, no log", BEFORE_BOLT))
    found = goals.ratio(result["runs"], goals.cost(ours), goals.cost(before))
    return found and ["## BOLT", "", "Processor time of a local hit ÷ that of the same program"
                      f" before BOLT: {found.mean:.2f} ({interval(found)}).", ""] or []


def side_by_side(result):
    rows = [(name, f"{m['cpu_us']:.1f}", f"{m['spread']:.0%}", f"{m['per_second']:,.0f}",
             f"{m['busy']:.0%}", *latencies(m), f"{m['memory_mb']:.1f}")
            for name, m in result["modes"].items() if "p99_us" in m]
    tls = "; ".join(f"{protocol}: {agreed}" for protocol, agreed in result.get("tls", {}).items())
    return ["## Side by side", "",
            "CPU is user and system time of the server's processes for each request; spread is"
            " (highest - lowest) ÷ median over the rounds. Latencies are wrk's (with TLS h2load's),"
            " in a closed loop at full speed. `busy` is the share of its core that the server used."
            + (f" TLS for all contestants: {tls}." if tls else ""), "",
            *table(("server: load", "CPU µs", "spread", "a second", "busy", "p50 µs", "p99 µs",
                    "p99.9 µs", "memory MB"), rows)]


def stores(result):
    used = {name: m for name, m in result["modes"].items()
            if "redis_us" in m or "postgres_us" in m}
    cell = lambda m, name: f"{m[name]:.2f}" if name in m else ""
    rows = [(name, cell(m, "cpu_us"), cell(m, "redis_us"), cell(m, "postgres_us"),
             f"{sum(m.get(field, 0) for field in goals.TOTAL):.2f}") for name, m in used.items()]
    return ["## Processor time of the stores", "", "Processor time for each request, µs, for every"
            " contestant that uses Redis or Postgres.", "",
            *table(("server: load", "server", "Redis", "Postgres", "together"), rows)]


def mixed(result):
    rows = [(name, f"{m['per_second']:,.0f}", f"{m['edits_per_second']:,.0f}",
             f"{m['from_local'] + m['from_shared']:.1%}", f"{m['from_local']:.1%}",
             f"{m['from_miss']:.1%}", f"{m['cpu_us']:.1f}", *latencies(m))
            for name, m in result["modes"].items() if name.endswith(": mixed")]
    return rows and ["## Mixed load", "", *table(
        ("server: load", "a second", "edits a second", "hit rate", "local hits", "misses", "CPU µs",
         "p50 µs", "p99 µs", "p99.9 µs"), rows)]


def misses(result):
    miss = result["modes"].get("service, no log: miss")
    if not miss:
        return []
    rows = [(name, f"{m['per_second']:,.0f}", f"{m['cpu_us']:.1f}",
             f"{m['load_share']:.0%}" if "load_share" in m else "none",
             f"{miss['per_second'] / m['per_second']:.2f}" if m["per_second"] else "")
            for name, m in result["modes"].items() if name.startswith("pgbench")]
    return ["## The database alone", "", "pgbench with the statement of a phenotype, 16 connections."
            f" For comparison: `service, no log: miss` has {miss['per_second']:,.0f} a second, and"
            f" wrk and Redis take {load_share(miss):.0%} of the core.", "",
            *table(("statements", "a second", "CPU of Postgres, µs", "load of wrk and Redis",
                    "misses a second ÷ this rate"), rows)]


def fixed(result):
    rows = [(name.partition(": ")[2], f"{m['per_second']:,.0f}", *latencies(m),
             f"{m['cpu_us']:.1f}") for name, m in result.get("fixed", {}).items()]
    return rows and [
        "## At one fixed rate (h2load)", "", f"Rounds of {result['fixed_seconds']} s.", "",
        *table(("server", "a second", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs"), rows)]


def paced(result):
    if "paced" not in result:
        return []
    rows = [(name, f"{p['share']:.0%}", f"{p['per_second']:,}", p["p50_us"], p["p99_us"],
             p["p999_us"]) for name, points in result["paced"].items() for p in points]
    return ["## At shares of the highest throughput (h2load)", "",
            "Shares of each server's own highest throughput.", ""] + table(
        ("server", "share", "a second", "p50 µs", "p99 µs", "p99.9 µs"), rows)


def growth(result):
    grown = result.get("growth")
    if not grown:
        return []
    lines = ["## Growth", ""]
    lines += table(("connections", "CPU µs", "a second", "p99 µs"), [
        (name.split()[0], f"{m['cpu_us']:.1f}", f"{m['per_second']:,.0f}", m["p99_us"])
        for name, m in grown["connections"].items()])
    lines += table(("replicas on the core", "CPU µs", "a second", "p99 µs"), [
        (n, m["cpu_us"], f"{m['per_second']:,}", m["p99_us"])
        for n, m in grown["replicas"].items()])
    lines += table(("keys", "CPU µs", "a second", "loaded after, s"), [
        (n, f"{m['cpu_us']:.1f}", f"{m['per_second']:,.0f}", m["known_after_s"])
        for n, m in grown["keys"].items()])
    offsets = sorted({int(o) for m in grown["genes"].values() for o in m["walks_ms"]})
    by = {int(n): {int(o): ms for o, ms in m["walks_ms"].items()} for n, m in grown["genes"].items()}
    lines += table(("genes", "hit CPU µs", "loaded in, s", *(f"offset {o:,}, ms" for o in offsets)),
                   [(f"{int(n):,}", f"{m['hit_cpu_us']:.1f}", m["seed_seconds"],
                     *(by[int(n)].get(o, "") for o in offsets))
                    for n, m in grown["genes"].items()])
    return lines


def plots(result, stem):
    """Writes the charts for which the run has measurements."""
    bars = [(name.removesuffix(": 20 genes"), m["cpu_us"]) for name, m in result["modes"].items()
            if name.endswith(": 20 genes")]
    if bars:
        Path(f"{stem}-cost.svg").write_text(
            chart.bars("CPU for each request, µs (20 genes)", bars))
    if "paced" in result:
        lines = [Line(name, [(p["per_second"] / 1000, p["p99_us"]) for p in points])
                 for name, points in result["paced"].items()]
        Path(f"{stem}-latency.svg").write_text(chart.lines(
            "p99 at fixed rates", lines, "thousand requests a second", "µs"))
    connections = result.get("growth", {}).get("connections")
    if connections:
        points = [(int(name.split()[0]), m["per_second"] / 1000) for name, m in connections.items()]
        Path(f"{stem}-connections.svg").write_text(chart.lines(
            "Throughput by connections", [Line("service, no log", points)], "connections",
            "thousand requests a second", log_y=False))

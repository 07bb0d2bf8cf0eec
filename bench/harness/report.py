"""The report of a run: tables in Markdown, and plots."""

from pathlib import Path

from . import goals
from .plot import Line, chart


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |",
             "|---" + "|---:" * (len(heads) - 1) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def markdown(result):
    machine = result["machine"]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    lines = [
        f"# Measured at {machine['commit']}", "",
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, Linux"
        f" {machine['kernel']}; {versions}. Server on core 1, load, Redis and Postgres on core 0."
        f" {result['rounds']} rounds in turn of {result['seconds']} s, 64 connections; medians."
        f" Load average before and after: {result['load_average_before']:.1f},"
        f" {result['load_average_after']:.1f}.", "",
        "## Goals", "",
    ]
    rows = [(label, bound, reached, "yes" if goals.is_reached(number, reached) else "**no**")
            for label, bound, reached, number in goals.ratios(result) if reached is not None]
    lines += table(("goal", "bound", "reached", "met"), rows)
    lines += ["## Side by side", "",
              "CPU is user and system time of the server's processes for each request; spread is"
              " (highest - lowest) ÷ median over the rounds. Latencies are wrk's, in a closed loop"
              " at full speed. `busy` is the share of its core that the server used.", ""]
    rows = [(name, f"{m['cpu_us']:.1f}", f"{m['spread']:.0%}", f"{m['per_second']:,.0f}",
             f"{m['busy']:.0%}", m["p50_us"], m["p99_us"], m["p999_us"], m["memory_mb"])
            for name, m in result["modes"].items()]
    lines += table(("server: load", "CPU µs", "spread", "a second", "busy", "p50 µs", "p99 µs",
                    "p99.9 µs", "memory MB"), rows)
    if "pgbench" in result:
        lines += ["pgbench with the statement of a phenotype, 16 connections: "
                  + ", ".join(f"{mode} {tps:,.0f} a second"
                              for mode, tps in result["pgbench"].items()) + ".", ""]
    return "\n".join(lines + paced(result) + growth(result)) + "\n"


def paced(result):
    if "paced" not in result:
        return []
    rows = [(name, f"{p['share']:.0%}", f"{p['per_second']:,}", p["p50_us"], p["p99_us"],
             p["p999_us"]) for name, points in result["paced"].items() for p in points]
    return ["## At fixed rates (h2load)", "",
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
    Path(f"{stem}-cost.svg").write_text(chart.bars("CPU for each request, µs (20 genes)", bars))
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

"""The performance goals: upper limits of the ratio of two contestants' figures. A goal is met if
the upper end of the 95 % interval of its ratio is not above the limit."""

from collections import namedtuple

from . import intervals

Goal = namedtuple("Goal", "label limit interval")
Figure = namedtuple("Figure", "mode fields")

PAGE = "20 genes"
TOTAL = ("cpu_us", "redis_us", "postgres_us")


def cost(mode):
    return Figure(mode, ("cpu_us",))


def quiet(load):
    return cost(f"service, no log: {load}")


def is_met(goal):
    return goal.interval.high <= goal.limit


def ratio(runs, ours, theirs):
    """The interval of the ratio of two figures; None if one was not measured."""
    if ours.mode not in runs or theirs.mode not in runs:
        return None
    values = lambda figure: [sum(result.get(field, 0) for field in figure.fields)
                             for result in runs[figure.mode]]
    return intervals.of_ratios(values(ours), values(theirs))


def goals(result):
    """The goals for which the run has measurements."""
    runs = result["runs"]
    compared = [*hits(), *many_keys(runs), *other_hits(), *growth(runs), *misses(), *latency()]
    found = [Goal(label, limit, ratio(runs, ours, theirs))
             for label, limit, ours, theirs in compared]
    found += [Goal(label, limit, intervals.exactly(value)) for label, limit, value in sizes(result)]
    return [goal for goal in found if goal.interval]


def pair(label, limit, load, peer):
    """With the logs that are on by default, and without request logs. Varnish always logs."""
    silent = peer if peer == "varnish" else f"{peer}, no log"
    return [(f"{label} ÷ {peer}, logs as by default", limit, cost(f"service: {load}"),
             cost(f"{peer}: {load}")),
            (f"{label} ÷ {peer}, no request log", limit, quiet(load), cost(f"{silent}: {load}"))]


def hits():
    return [("Local hit ÷ the floor", 2.0, quiet(PAGE), cost(f"floor: hyper: {PAGE}")),
            *pair("Local hit", 1.1, PAGE, "nginx"),
            *pair("Stretch goal: local hit", 1.0, PAGE, "nginx"),
            *pair("Local hit", 0.75, PAGE, "varnish"),
            *pair("Local hit", 0.48, PAGE, "nginx-lua")]


def many_keys(runs):
    load = next((name.split(": ")[1] for name in runs if name.endswith(" keys")), "")
    return pair(load, 0.55, load, "nginx-lua")


def other_hits():
    return [("Refusal (429) ÷ the floor", 1.6, quiet("429"), cost(f"floor: hyper: {PAGE}")),
            ("304 ÷ hit", 1.0, quiet("304"), quiet(PAGE)),
            ("Gzip hit ÷ plain hit of its size", 1.1, quiet("gzip"),
             quiet("plain as large as gzip")),
            ("Shared hit ÷ local hit", 1.7, quiet("shared hit"), quiet(PAGE))]


def growth(runs):
    for unit in ("keys", "genes"):
        sizes = sorted(int(name.split()[1]) for name in runs
                       if name.startswith("growth: ") and name.endswith(f" {unit}"))
        if sizes:
            mode = lambda size: cost(f"growth: {size} {unit}")
            yield (f"Hit with {sizes[-1]:,} {unit} ÷ with {sizes[0]:,}", 1.1, mode(sizes[-1]),
                   mode(sizes[0]))


def misses():
    miss, without_redis = "service, no log: miss", "service, no log: miss, without Redis"
    return [("Miss ÷ without Redis, the service", 1.5, cost(miss), cost(without_redis)),
            ("Miss ÷ without Redis, with Redis and Postgres", 1.25, Figure(miss, TOTAL),
             Figure(without_redis, TOTAL)),
            ("Miss ÷ pgbench, Postgres", 1.1, Figure(miss, ("postgres_us",)),
             cost("pgbench: prepared"))]


def latency():
    mode = lambda name: Figure(f"fixed rate: {name}", ("p99_us",))
    return [(f"p99 at the fixed rate ÷ {peer}", limit, mode("service"), mode(peer))
            for peer, limit in (("nginx-lua", 0.35), ("nginx", 1.2))]


def sizes(result):
    found = [("Memory at rest, MB", 60, result["memory_at_rest_mb"])]
    if "instructions" in result:
        found.append(("Instructions of a hit", 26_000, result["instructions"]))
    if "size" in result:
        found += [("`demo` responds after, s", 0.3, result["size"]["demo_ready_s"]),
                  ("Binary, MB", 30, result["size"]["binary_mb"])]
    return found

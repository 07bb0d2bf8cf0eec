"""The performance goals, as ratios of medians within one run."""


def ratios(result):
    """A list of (goal, bound as text, measured value, bound); the value is None if not measured."""
    modes, page = result["modes"], "20 genes"
    cost = lambda name: modes.get(name, {}).get("cpu_us")
    quiet = lambda name: f"service, no log: {name}"
    keys = next((name.split(": ")[1] for name in modes if name.endswith(" keys")), "")

    def over(ours, theirs):
        return round(ours / theirs, 2) if ours and theirs else None

    def pair(label, bound, ours, theirs):
        return (label, f"≤ {bound}", over(cost(ours), cost(theirs)), bound)

    found = [
        ("Local hit ÷ the floor", "≤ 2.0", over(cost(quiet(page)), cost(f"floor: hyper: {page}")), 2.0)
    ]
    for theirs, bound in (("nginx", 1.0), ("varnish", 0.8), ("nginx-lua", 0.5)):
        found.append(pair(f"Local hit ÷ {theirs}, logs as by default", bound,
                          f"service: {page}", f"{theirs}: {page}"))
        silent = theirs if theirs == "varnish" else f"{theirs}, no log"
        found.append(pair(f"Local hit ÷ {theirs}, nobody logs", bound, quiet(page),
                          f"{silent}: {page}"))
    found += [
        pair(f"{keys} ÷ nginx-lua, logs as by default", 0.65, f"service: {keys}",
             f"nginx-lua: {keys}"),
        pair(f"{keys} ÷ nginx-lua, nobody logs", 0.65, quiet(keys), f"nginx-lua, no log: {keys}"),
        pair("Refusal (429) ÷ the floor", 1.6, quiet("429"), f"floor: hyper: {page}"),
        pair("304 ÷ hit", 1.0, quiet("304"), quiet(page)),
        pair("Gzip hit ÷ plain hit of its size", 1.1, quiet("gzip"),
             quiet("plain as large as gzip")),
        pair("Shared hit ÷ local hit", 2.0, quiet("shared hit"), quiet(page)),
    ]
    for name, mode, label in (
        ("miss", "prepared", "prepared"), ("miss, unnamed", "unnamed", "unnamed"),
        ("miss, without Redis", "prepared", "prepared, without Redis")):
        database, misses = result.get("pgbench", {}).get(mode), modes.get(quiet(name))
        if database and misses:
            found.append((f"Misses a second ÷ pgbench, {label}", "≥ 0.8",
                          round(misses["per_second"] / database, 2), -0.8))
    return found + latency(result) + growth(result) + sizes(result)


def latency(result):
    at = {name: next(point for point in points if point["share"] == 0.5)["p99_us"]
          for name, points in result.get("paced", {}).items()}
    if not at:
        return []
    ratio = round(at["service"] / at["nginx-lua"], 2)
    return [("p99 at half the highest load ÷ nginx-lua", "< 1.0", ratio, 1.0)]


def growth(result):
    found = []
    for what, key, label in (("genes", "hit_cpu_us", "genes"), ("keys", "cpu_us", "keys")):
        grown = result.get("growth", {}).get(what)
        if grown:
            sizes = sorted(grown, key=int)
            ratio = round(grown[sizes[-1]][key] / grown[sizes[0]][key], 2)
            found.append((f"Hit with {int(sizes[-1]):,} {label} ÷ with {int(sizes[0]):,}",
                          "≤ 1.1", ratio, 1.1))
    return found


def sizes(result):
    found = [("Memory at rest, MB", "< 60", result.get("memory_at_rest_mb"), 60)]
    if "size" in result:
        found += [("`demo` responds after, s", "≤ 0.3", result["size"]["demo_ready_s"], 0.3),
                  ("`dist` binary, MB", "< 30", result["size"]["binary_mb"], 30)]
    return found


def is_reached(bound, reached):
    """A negative bound is a minimum, a positive one a maximum."""
    return reached >= -bound if bound < 0 else reached <= bound

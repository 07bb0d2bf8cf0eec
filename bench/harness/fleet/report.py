"""What a run measured, as Markdown, and whether it passed its checks."""

import statistics

from ..report import table
from .checks import VISIBLE_SECONDS

NONE = "–"


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def milliseconds(values, share):
    return f"{quantile(values, share) * 1000:.1f}" if values else NONE


def requests(phase):
    return phase.sum("requests_total")


def for_each_request(phase, value, text):
    return text.format(value / requests(phase)) if requests(phase) else NONE


def cached(phase):
    """Where the responses were found, in percent."""
    responses = phase.sum("answers_total")
    shares = {name: phase.sum(f'answers_total{{source="{name}"') for name in ("local", "shared")}
    shares["others"] = responses - sum(shares.values())
    if not responses:
        return NONE
    return ", ".join(f"{name} {share / responses:.1%}" for name, share in shares.items())


def commands(phase):
    """The commands that Redis ran, also those in scripts, for each request or a second."""
    per = requests(phase) or phase.seconds
    found = {name.removeprefix("commands "): count / per for name, count in phase.counted.items()
             if name.startswith("commands ")}
    busiest = sorted(found.items(), key=lambda pair: -pair[1])[:6]
    text = ", ".join(f"{name} {count:.2f}" for name, count in busiest if count >= 0.01)
    return text + ("" if requests(phase) else " (a second)")


def memory(phase, kind):
    sizes = phase.memory[kind]
    return f"{statistics.median(sizes):.0f}, {max(sizes):.0f}, {sum(sizes):,.0f}"


def statements(phase):
    return ", ".join(f"{kind} {phase.counted[f'statements {kind}'] / phase.seconds:.1f}"
                     for kind in ("polls", "keys", "genes"))


def processors(phase):
    return ", ".join(f"{name} {spent / phase.seconds:.1%}" for name, spent in phase.cpu.items())


ROWS = (
    ("seconds", lambda p: f"{p.seconds:.0f}"),
    ("requests a second, with those of the checks", lambda p: f"{requests(p) / p.seconds:,.0f}"),
    ("statuses of the load",
     lambda p: ", ".join(f"{status}: {count:,}" for status, count in sorted(p.statuses.items()))
     or NONE),
    ("response time: median, 99th percentile, ms",
     lambda p: f"{milliseconds(p.took, 0.5)}, {milliseconds(p.took, 0.99)}"),
    ("requests sent late: 99th percentile, ms", lambda p: milliseconds(p.late, 0.99)),
    ("responses from", cached),
    ("lookups of a key, in percent of requests",
     lambda p: for_each_request(p, p.sum("key_lookups_total"), "{:.2%}")),
    ("statements for keys, in percent of requests",
     lambda p: for_each_request(p, p.counted["statements keys"], "{:.2%}")),
    ("statements a second", statements),
    ("polls a second", lambda p: f"{p.sum('change_log_polls_total') / p.seconds:.1f}"),
    ("connections to Postgres, Redis: highest",
     lambda p: f"{p.connections['Postgres']}, {p.connections['Redis']}"),
    ("Redis commands for each request", commands),
    ("requests that no reply of Redis counted",
     lambda p: f"{p.sum('limit_local_fallback_total'):.0f}"),
    ("kB a second to and from Redis",
     lambda p: ", ".join(f"{p.counted[name] / p.seconds / 1000:,.0f}"
                         for name in ("redis in", "redis out"))),
    ("bytes to and from Redis for each request",
     lambda p: ", ".join(for_each_request(p, p.counted[name], "{:,.0f}")
                         for name in ("redis in", "redis out"))),
    ("resident MB of a replica: median, highest; of all", lambda p: memory(p, "Rss")),
    ("proportional MB of a replica: median, highest; of all", lambda p: memory(p, "Pss")),
    ("processor time, in percent of a core", processors),
    ("processor time of the replicas for each request, µs",
     lambda p: for_each_request(p, p.cpu["replicas"] * 1e6, "{:.0f}")),
)


def checks(run):
    """Each as (name, bound, measured, whether it holds)."""
    _, _, quiet, changing = run.phases
    currency, limits, bound = run.currency, run.limits, VISIBLE_SECONDS + run.chosen.slack
    found = []
    for phase in (quiet, changing):
        rate = len(phase.took) / phase.seconds
        found.append((f"load a second, {phase.name}", f"≥ {0.95 * run.chosen.rate:,.0f}",
                      f"{rate:,.0f}", rate >= 0.95 * run.chosen.rate))
        for name, highest in phase.connections.items():
            found.append((f"connections to {name}, {phase.name}", f"≤ {run.bounds[name]}",
                          highest, highest <= run.bounds[name]))
    found += lookups(quiet)
    unexpected = dict(currency.unexpected) | {
        f"none, {phase.name}": phase.unanswered for phase in (quiet, changing) if phase.unanswered}
    found.append(("unexpected statuses", "none", unexpected or "none", not unexpected))
    found.append((f"windows of a limit of {limits.limit} that admitted fewer, or more without load, of"
                  f" {limits.windows}", "none", limits.wrong or "none", not limits.wrong))
    # A replica decides alone where Redis takes longer than redis.timeout_ms, as on a busy machine.
    alone = sum(phase.sum("limit_local_fallback_total") for phase in (quiet, changing))
    found.append(("requests beyond the limit, of those that no reply of Redis counted",
                  f"≤ {alone:.0f}", limits.excess, limits.excess <= alone))
    for name, old in currency.old.items():
        last = max(old, default=0)
        found.append((f"last old response after {currency.committed[name]} changes: {name}",
                      f"≤ {bound:.2f} s", f"{last:.2f} s",
                      last <= bound and currency.committed[name] > 0))
    return found


def lookups(quiet):
    """Once each replica has seen each key."""
    of_all = max(1, requests(quiet))
    for name, count in (("requests that wait for the lookup of a key", "key_lookups_total"),
                        ("statements for keys", "statements keys")):
        share = quiet.sum(count) / of_all
        yield f"{name}, no changes", "< 1 %", f"{share:.2%}", share < 0.01


def failed(run):
    return [name for name, _, _, holds in checks(run) if not holds]


def markdown(run):
    machine, chosen = run.machine, run.chosen
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    lines = [
        f"# {chosen.replicas} replicas", "",
        f"Commit {machine['commit']}, profile {chosen.profile}. {machine['cores']} cores of"
        f" {machine['cpu']}, {machine['memory_gb']} GB, Linux {machine['kernel']}; {versions}."
        " Replicas on core 1; load, Redis and Postgres on core 0. Load average before and after:"
        f" {run.load_before:.1f}, {machine['load_average']:.1f}.", "",
        f"{chosen.rate:,} requests a second over all replicas at a fixed rate, {chosen.keys:,} keys"
        f" drawn evenly, {len(run.workload.targets):,} queries by Zipf's law, {chosen.genes:,}"
        f" genes. `upstream.pool_size` is {chosen.pool_size}, `log.level` is `warn`; the rest is"
        " the default.", "",
        "In the phase \"first requests\", each replica gets each key once, as fast as it responds."
        " In the phase \"changes\", one gene is edited or one key revoked each second, and every"
        " replica is asked until it shows that. Of the commands `info`, one a second is this"
        " measurement's own.", "",
    ]
    lines += table(("", *(phase.name for phase in run.phases)),
                   [(name, *(text(phase) for phase in run.phases)) for name, text in ROWS])
    lines += table(("check", "bound", "measured", "holds"), [
        (*row, "yes" if holds else "**no**") for *row, holds in checks(run)])
    return "\n".join(lines)


def summary(run):
    """One line for tests/more."""
    quiet, changing = run.phases[2:]
    old = [seconds for all_old in run.currency.old.values() for seconds in all_old]
    return (f"summary: {run.chosen.replicas} replicas, {run.chosen.rate} requests a second, p99"
            f" {milliseconds(quiet.took, 0.99)} ms and with changes"
            f" {milliseconds(changing.took, 0.99)} ms, last old response"
            f" {max(old, default=0):.2f} s after the commit, failed checks: {', '.join(failed(run)) or 'none'}")

"""All parts of a run, in order; `bench/run` calls this."""

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from . import growth, machine, paced, report, rounds, servers
from .misses import DatabaseAlone
from .mixed import MixedLoad
from .process import Fleet
from .side_by_side import BEFORE_BOLT, Setting
from .stores import Postgres, Redis
from .tls import TlsHits

RESULTS = Path("bench/results")
PARTS = "hits,small,misses,tls,mixed,fixed,paced,growth,size,instructions"


def options():
    parser = argparse.ArgumentParser(prog="bench/run")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", default=PARTS)
    parser.add_argument("--label")
    parser.add_argument("--target", type=Path, required=True, help="where the measured build is")
    parser.add_argument("--reference", type=Path, required=True, help="where 1.0.0 is")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 10)
    chosen.seconds = chosen.seconds or (1 if chosen.quick else 10)
    chosen.fixed_seconds = chosen.seconds if chosen.quick else max(30, chosen.seconds)
    chosen.only = chosen.only.split(",")
    if unknown := set(chosen.only) - set(PARTS.split(",")):
        parser.error(f"no part is called {', '.join(unknown)}; there are {PARTS}")
    if "paced" in chosen.only and "hits" not in chosen.only:
        parser.error("paced needs hits")
    folders = {"service": chosen.target / "gene-registry", "floor": chosen.target / "floor",
               "1.0.0": chosen.reference / "gene-registry"}
    if (chosen.target / "before-bolt").exists():
        folders[BEFORE_BOLT] = chosen.target / "before-bolt"
    chosen.binaries = {name: str(path.resolve()) for name, path in folders.items()}
    return chosen


def main():
    chosen, begun = options(), time.monotonic()
    build = machine.build(chosen.target)
    say(f"The build: profile {build['profile']}, commit {build['commit']}")
    result = {"build": build, "machine": machine.describe(), "rounds": chosen.rounds,
              "seconds": chosen.seconds, "fixed_seconds": chosen.fixed_seconds, "runs": {},
              "load_average_before": machine.load_average()}
    # The accounts of the stores need access.
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Fleet() as fleet:
        folder = Path(name)
        folder.chmod(0o755)
        run_parts(chosen, result, fleet, folder)
    result["minutes"] = round((time.monotonic() - begun) / 60, 1)
    result["load_average_after"] = machine.load_average()
    write(result, chosen.label or label(chosen, build))


def label(chosen, build):
    parts = [] if chosen.only == PARTS.split(",") else chosen.only
    return "quick" if chosen.quick else "-".join([build["commit"], *parts])


def write(result, label):
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{label}.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.markdown(result)
    (RESULTS / f"{label}.md").write_text(text)
    report.plots(result, RESULTS / label)
    print(text)


def say(text):
    print(f"==> {text}", flush=True)


def run_parts(chosen, result, fleet, folder):
    if "size" in chosen.only:
        result["size"] = size(fleet, folder, chosen.binaries["service"])
    if "instructions" in chosen.only:
        result["instructions"] = instructions()
    say("Stores, registry, servers")
    redis = Redis(fleet, folder)
    postgres = Postgres(fleet, folder, chosen.binaries["service"])
    # More genes than misses in a round.
    postgres.registry("bench", 1_000 if chosen.quick else 150_000)
    setting = Setting(fleet, folder, chosen.binaries, postgres, redis, "bench",
                      keys=150 if chosen.quick else 1000)
    setting.check_responses()
    setting.load_keys()
    result["memory_at_rest_mb"] = setting.service.hit.process.memory_mb()["now"]

    def measure(modes, seconds=chosen.seconds):
        runs = rounds.run(modes, chosen.rounds, seconds)
        result["runs"] |= runs
        return rounds.medians(runs)

    say("Side by side")
    result["modes"] = measure(side_by_side(chosen, result, setting))
    if "fixed" in chosen.only:
        say("At one fixed rate")
        result["fixed"] = measure(paced.modes(setting), chosen.fixed_seconds)
    if "paced" in chosen.only:
        say("At shares of the highest throughput")
        result["paced"] = paced.curves(setting, result["modes"], chosen.seconds)
    if "growth" in chosen.only:
        say("Growth")
        result["growth"] = grow(chosen, setting, measure)


def side_by_side(chosen, result, setting):
    """The modes of all rounds."""
    modes = setting.modes(chosen.only)
    if "misses" in chosen.only:
        by_name = {mode.name: mode for mode in modes}
        modes += DatabaseAlone(setting, by_name["service, no log: miss"],
                               by_name["service, no log: shared hit"]).modes()
    if "tls" in chosen.only:
        hits = TlsHits(setting)
        result["tls"] = hits.check()
        modes += hits.modes()
    if "mixed" in chosen.only:
        modes += MixedLoad(setting, 1_000 if chosen.quick else 100_000).modes()
    return modes


def grow(chosen, setting, measure):
    quick = chosen.quick
    return {
        "connections": growth.of_connections(
            setting, (1, 64) if quick else (1, 8, 64, 256, 1000), chosen.seconds),
        "replicas": growth.of_replicas(setting, (1, 3), chosen.seconds),
        "keys": growth.of_keys(setting, (1, 100) if quick else (1, 1000, 100_000), measure),
        "genes": growth.of_genes(
            setting, (100, 1_000) if quick else (1_000, 100_000, 1_000_000), measure)}


def size(fleet, folder, binary):
    # The shipped binary is stripped; the measured one need not be.
    took, memory = servers.demo_start_seconds(fleet, folder, binary)
    return {"binary_mb": round(os.path.getsize(binary) / 1e6, 1),
            "demo_ready_s": round(took, 3), "demo_memory_mb": memory}


def instructions():
    """The instructions of a hit, also if the script fails because they are above its record."""
    say("Instructions of a hit")
    done = subprocess.run(["bench/instructions"], stdout=subprocess.PIPE, text=True, check=False)
    found = re.match(r"(\d+) instructions", done.stdout)
    if not found:
        raise SystemExit("bench: bench/instructions counts nothing")
    return int(found.group(1))


main()

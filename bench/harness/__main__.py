"""All parts of a run, in order; `bench/run` calls this."""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from . import growth, machine, misses, paced, report, rounds, servers
from .process import Fleet
from .side_by_side import Setting
from .stores import Postgres, Redis

RESULTS = Path("bench/results")
BINARIES = {name: str(Path(f"target/dist/{file}").resolve())
            for name, file in (("service", "gene-registry"), ("floor", "floor"))}


def options():
    parser = argparse.ArgumentParser(prog="bench/run")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", default="side-by-side,paced,growth,size")
    parser.add_argument("--label")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 5)
    chosen.seconds = chosen.seconds or (1 if chosen.quick else 5)
    chosen.only = chosen.only.split(",")
    return chosen


def main():
    chosen, begun = options(), time.monotonic()
    result = {"machine": machine.describe(), "rounds": chosen.rounds,
              "seconds": chosen.seconds, "load_average_before": machine.load_average()}
    # The accounts of the stores need access.
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Fleet() as fleet:
        folder = Path(name)
        folder.chmod(0o755)
        measure(chosen, result, fleet, folder)
    result["minutes"] = round((time.monotonic() - begun) / 60, 1)
    result["load_average_after"] = machine.load_average()
    label = chosen.label or ("quick" if chosen.quick else result["machine"]["commit"].split()[0])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{label}.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.markdown(result)
    (RESULTS / f"{label}.md").write_text(text)
    report.plots(result, RESULTS / label)
    print(text)


def measure(chosen, result, fleet, folder):
    say = lambda text: print(f"==> {text}", flush=True)
    if "size" in chosen.only:
        result["size"] = size(fleet, folder)
    say("Stores, registry, servers")
    redis = Redis(fleet, folder)
    postgres = Postgres(fleet, folder, BINARIES["service"])
    genes = 1_000 if chosen.quick else 100_000
    postgres.registry("bench", genes)
    setting = Setting(fleet, folder, BINARIES, postgres, redis, "bench",
                      keys=150 if chosen.quick else 1000)
    setting.check_responses()
    setting.load_keys()
    result["memory_at_rest_mb"] = setting.hit.process.memory_mb()["now"]
    say("Side by side")
    runs = rounds.run(setting.modes(), chosen.rounds, chosen.seconds)
    result["runs"], result["modes"] = runs, rounds.medians(runs)
    say("The database alone")
    result["pgbench"] = misses.database_alone(
        setting, postgres, "bench", folder, min(3, chosen.rounds), chosen.seconds)
    if "paced" in chosen.only:
        say("At fixed rates")
        result["paced"] = paced.curves(setting, result["modes"], chosen.seconds)
    if "growth" in chosen.only:
        grow(chosen, result, fleet, folder, setting, postgres, redis)


def grow(chosen, result, fleet, folder, setting, postgres, redis):
    print("==> Growth", flush=True)
    quick = chosen.quick
    grown = result["growth"] = {}
    grown["connections"] = growth.of_connections(
        setting, (1, 64) if quick else (1, 8, 64, 256, 1000), chosen.seconds)
    grown["replicas"] = growth.of_replicas(setting, (1, 3), chosen.seconds)
    grown["keys"] = growth.of_keys(
        setting, postgres, "bench", (1, 100) if quick else (1, 1000, 100_000), chosen.seconds)
    grown["genes"] = growth.of_genes(
        fleet, folder, BINARIES, postgres, redis,
        (100, 1_000) if quick else (1_000, 100_000, 1_000_000), chosen.seconds)


def size(fleet, folder):
    # The shipped binary is stripped; the measured one need not be.
    took, memory = servers.demo_start_seconds(fleet, folder, BINARIES["service"])
    return {"binary_mb": round(os.path.getsize(BINARIES["service"]) / 1e6, 1),
            "demo_ready_s": round(took, 3), "demo_memory_mb": memory}


main()

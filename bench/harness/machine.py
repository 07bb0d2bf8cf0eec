"""The hardware and the versions of a run. Nothing identifies the machine."""

import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path

from .process import program


def first_line(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def version(*argv):
    found = re.search(r"\d+(\.\d+)+", first_line(program(argv[0]), *argv[1:]))
    return found.group(0) if found else "unknown"


VERSIONS = {"rustc": ("rustc", "--version"), "nginx": ("nginx", "-v"),
            "varnish": ("varnishd", "-V"), "postgres": ("postgres", "--version"),
            "redis": ("redis-server", "--version"), "wrk": ("wrk", "-v"),
            "h2load": ("h2load", "--version")}


def build(folder):
    """The profile and the commit that `bench/run` recorded for the program in this folder."""
    record = folder / "gene-registry.build"
    profile, commit, hash_then = (record.read_text() if record.exists() else "- - -").split()
    if hashlib.sha256((folder / "gene-registry").read_bytes()).hexdigest() != hash_then:
        return {"profile": "unknown", "commit": "unknown"}
    return {"profile": profile, "commit": commit}


def describe(programs=tuple(VERSIONS)):
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"],
                             capture_output=True, text=True).stdout.strip()
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1))
    return {
        "cores": os.cpu_count(),
        "cpu": cpu.group(1) if cpu else "unknown",
        "memory_gb": round(memory / 1e6, 1),
        "kernel": platform.release().split("-")[0],
        "commit": first_line("git", "rev-parse", "--short=12", "HEAD")
        + (" with changes" if changed else ""),
        "versions": {name: version(*VERSIONS[name]) for name in programs},
    }


def load_average():
    return os.getloadavg()[0]

"""Holds rendered manifests against rules.py: check.py FILE BINARY. Prints each fault; exit status 1
where there is one. With --broken, breaks copies of the file and fails where a rule lets one pass."""

import pathlib
import sys

from breaks import BREAKS
from cluster import Cluster
from rules import RULES


def faults(text, binary):
    cluster, found = Cluster(text, binary), []
    for rule in RULES:
        try:
            found += rule(cluster)
        except (LookupError, TypeError, ValueError) as error:
            # What it is about is not there, or there twice.
            found.append(f"{rule.__name__}: not as it should be: {error!r}")
    return found


def unnoticed(text, binary):
    """What was broken and not noticed, or noticed as something else."""
    for old, new, expected in BREAKS:
        if old not in text:
            yield f"{old!r} is not there to be broken"
            continue
        found = faults(text.replace(old, new), binary)
        if not any(expected in fault for fault in found):
            yield f"{old!r} → {new!r}: wanted {expected!r}, found {found}"


def main():
    *options, file, binary = sys.argv[1:]
    text = pathlib.Path(file).read_text()
    found = list((unnoticed if options == ["--broken"] else faults)(text, binary))
    print(*found or [f"{len(BREAKS)} breaks noticed" if options else "no fault"], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

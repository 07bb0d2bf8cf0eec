"""Checks rendered manifests by rules.py: check.py FILE BINARY. Prints each fault; the exit status is 1
if there is one. With --broken, breaks copies of the file and fails if a break is not found."""

import pathlib
import sys

from breaks import BASE, EXAMPLE
from cluster import Cluster
from rules import RULES


def faults(text, binary):
    cluster, found = Cluster(text, binary), []
    for rule in RULES:
        try:
            found += rule(cluster)
        except (LookupError, TypeError, ValueError) as error:
            # The object of the rule is missing, or there are two.
            found.append(f"{rule.__name__}: not as it should be: {error!r}")
    return found


def missed_breaks(text, binary, breaks):
    """The breaks that no rule finds, or that are reported as another fault."""
    for old, new, expected in breaks:
        if old not in text:
            yield f"{old!r} does not occur, so it cannot be broken"
            continue
        found = faults(text.replace(old, new), binary)
        if not any(expected in fault for fault in found):
            yield f"{old!r} → {new!r}: expected {expected!r}, found {found}"


def main():
    *options, file, binary = sys.argv[1:]
    text = pathlib.Path(file).read_text()
    if options == ["--broken"]:
        breaks = {"base": BASE, "example": EXAMPLE}[pathlib.Path(file).stem]
        found, good = list(missed_breaks(text, binary, breaks)), f"{len(breaks)} breaks found"
    else:
        found, good = faults(text, binary), "no fault"
    print(*found or [good], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

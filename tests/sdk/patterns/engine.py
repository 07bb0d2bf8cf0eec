"""Python's own engine, or RE2. Reads lines of two hexadecimal texts, a pattern and a value, and prints
whether the pattern matches: anywhere and, if it is for the whole text, also from the beginning on and as a
whole, as some clients use it.

engine.py re|re2
"""

import importlib
import sys

engine = importlib.import_module(sys.argv[1])
for line in sys.stdin:
    pattern, value = (bytes.fromhex(part).decode() for part in line.rstrip("\n").split(" "))
    ways = [engine.search]
    if pattern.endswith("$"):
        ways += [engine.match, engine.fullmatch]
    results = {bool(way(pattern, value)) for way in ways}
    print({True: "true", False: "false"}[results.pop()] if len(results) == 1 else "differs")

"""Python's own engine, or RE2. Reads lines of two hexadecimal texts, a pattern and a value, and prints
whether the pattern matches.

engine.py re|re2
"""

import importlib
import sys

engine = importlib.import_module(sys.argv[1])
for line in sys.stdin:
    pattern, value = (bytes.fromhex(part).decode() for part in line.rstrip("\n").split(" "))
    print("true" if engine.search(pattern, value) else "false")

#!/usr/bin/env python3
"""Recommends a gene for a task: the best native gene of a domain that takes the given input.

    BASE_URL=http://127.0.0.1:8080/v1 API_KEY=... examples/recommend.py DOMAIN [INPUT]

With INPUT, only genes whose phenotype has an input of that name are recommended.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def get(path: str, **query: object) -> dict:
    """Sends a request and returns the result; waits and retries on 429, 502 and 503."""
    url = os.environ["BASE_URL"] + path + "?" + urllib.parse.urlencode(query)
    request = urllib.request.Request(url, headers={"X-API-Key": os.environ["API_KEY"]})
    for attempt in range(5):
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            failure = json.load(error)
            if failure["code"] not in ("RATE_LIMITED", "UNAVAILABLE", "DB_ERROR"):
                sys.exit(f"{failure['code']}: {failure['error']}")
            time.sleep(float(error.headers.get("Retry-After", 2**attempt)))
    sys.exit("the registry cannot be read; gave up")


def shown(text: str) -> str:
    """A text of the registry without characters that would control the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    domain, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    for gene in get("/genes", domain=domain, fidelity="Native", sort="fitness", limit=10)["data"]:
        phenotype = get(f"/genes/{gene['id']}/phenotype")
        inputs = phenotype["phenotype"]["input"].get("properties", {})
        if wanted is None or wanted in inputs:
            print(shown(f"{gene['name']}: fitness {gene['fitness_score']}, {gene['description']}"))
            print(shown(f"takes:   {', '.join(inputs)}"))
            print(shown(f"install: {phenotype['install_command']}"))
            return
    sys.exit(f"no native gene of {domain} fits")


main()

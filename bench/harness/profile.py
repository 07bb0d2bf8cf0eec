"""The load while a profile is recorded; see bench/profile."""

import sys
import tempfile
from pathlib import Path

from . import load, servers
from .http import get
from .process import Fleet
from .servers import LONG_AGES, WITHOUT_LOCAL_CACHE
from .side_by_side import MAX_LIMIT, PAGE
from .stores import Postgres, Redis, api_key

GENES, KEYS, SECONDS = 20_000, 1_000, 5


def main(program):
    with tempfile.TemporaryDirectory(prefix="profile-") as name, Fleet() as fleet:
        folder = Path(name)
        folder.chmod(0o755)
        responses = record(fleet, folder, program)
    Path(f"{program}.responses").write_text(f"{responses}\n")


def record(fleet, folder, program):
    """The number of responses."""
    redis, postgres = Redis(fleet, folder), Postgres(fleet, folder, program)
    postgres.registry("profile", GENES)
    keys, exhausted = [api_key("k", number) for number in range(KEYS)], api_key("tight", 1)
    postgres.add_keys("profile", [(key, MAX_LIMIT) for key in keys] + [(exhausted, 1)])
    genes = postgres.sql("profile", "SELECT id FROM registry.gene WHERE published").split()

    def replica(kind, **settings):
        return servers.service(fleet, folder, program, kind, postgres.url("profile"), redis.url,
                               {**LONG_AGES, **settings})

    caching, bare = replica("caching"), replica("bare", **WITHOUT_LOCAL_CACHE)
    tag = get(caching.port, PAGE, keys[0])[1]["etag"]
    pages = [f"/v1/genes?domain=bench.large&limit={n % 50 + 1}&offset={n}" for n in range(500)]
    targets = pages + [f"/v1/arena/insights?domain=bench.large"]
    hits = [(target, keys[n % KEYS], "") for n, target in enumerate(targets)]
    loads = [
        (caching, hits),
        (caching, [(PAGE, keys[0], "")]),
        (caching, [(PAGE, keys[0], f"If-None-Match: {tag}")]),
        (caching, [(PAGE, keys[0], "Accept-Encoding: gzip")]),
        (caching, [(PAGE, exhausted, "")]),
        (caching, [(PAGE, api_key("nobody", 1)[:-1] + "!", "")]),
        (bare, hits),
        (bare, [(f"/v1/genes/{gene}/phenotype", keys[0], "") for gene in genes]),
    ]
    responses = 0
    for number, (server, lines) in enumerate(loads):
        file = load.lines_file(folder, f"load-{number}", lines)
        responses += load.wrk(server.port, file, seconds=SECONDS)["requests"]
    return responses


main(sys.argv[1])

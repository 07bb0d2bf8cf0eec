"""A mixed load at a fixed rate, while genes are edited: queries and keys have Zipf weights."""

import random
from concurrent.futures import ThreadPoolExecutor

from . import load
from .rounds import Mode
from .side_by_side import MAX_LIMIT
from .stores import LOAD_CORE, api_key

PER_SECOND = 5_000
QUERIES, KEYS, REQUESTS = 5_000, 1_000, 100_000
EDITED_SHARE, EDITORS = 0.01, 4
EDIT = """UPDATE registry.gene SET description = 'Edited at ' || clock_timestamp() WHERE id =
(SELECT id FROM registry.gene WHERE published AND id >= (SELECT gen_random_uuid())
ORDER BY id LIMIT 1)"""
VACUUM = "VACUUM (ANALYZE) registry.gene, registry.change"


def queries(postgres, database, chance):
    """Half are phenotypes, four in ten pages of a domain's genes, and one in ten is insights."""
    genes = postgres.sql(database, "SELECT id FROM registry.gene WHERE published").split()
    domains = postgres.sql(database, "SELECT DISTINCT domain FROM registry.gene"
                           " WHERE published").split()
    kinds = [lambda: f"/v1/genes/{chance.choice(genes)}/phenotype",
             lambda: f"/v1/genes?domain={chance.choice(domains)}"
                     f"&limit={chance.randint(1, 50)}&offset={chance.randint(0, 50)}",
             lambda: f"/v1/arena/insights?domain={chance.choice(domains)}"]
    found = {}
    while len(found) < QUERIES:
        found[chance.choices(kinds, (5, 4, 1))[0]()] = True
    return list(found)


def zipf(number):
    return [1 / rank for rank in range(1, number + 1)]


class MixedLoad:
    """Each build of the service has a database of its own, so that edits concern no other."""

    def __init__(self, setting, genes):
        self.setting, self.edits_per_second = setting, max(1, round(genes * EDITED_SHARE))
        self.keys = [api_key("m", number) for number in range(KEYS)]
        self.requests = None
        self.replicas = {build: self.replica(build, genes) for build in setting.builds}

    def database(self, build):
        return f"mixed_{build.name.replace('.', '_')}"

    def replica(self, build, genes):
        postgres, database = self.setting.postgres, self.database(build)
        postgres.registry(database, genes)
        postgres.add_keys(database, [(key, MAX_LIMIT) for key in self.keys])
        for table in ("gene", "change"):
            postgres.sql(database, f"ALTER TABLE registry.{table} SET (autovacuum_enabled = false)")
        # Generated registries are equal.
        self.requests = self.requests or self.lines(database)
        return build.replica("mixed", database, LOG__LEVEL="warn")

    def lines(self, database):
        chance = random.Random(1)
        targets = queries(self.setting.postgres, database, chance)
        chosen = zip(chance.choices(targets, zipf(QUERIES), k=REQUESTS),
                     chance.choices(self.keys, zipf(KEYS), k=REQUESTS))
        return self.setting.requests("mixed", [(target, key, "") for target, key in chosen])

    def modes(self):
        return [Mode(f"{build.name}, no log: mixed", replica, load=self.load(build, replica),
                     before=self.prepare(build, replica))
                for build, replica in self.replicas.items()]

    def prepare(self, build, replica):
        """Fills the caches: between two rounds, entries expire."""
        def action():
            self.setting.postgres.sql(self.database(build), VACUUM)
            load.wrk(replica.port, self.requests, seconds=3)
        return action

    def load(self, build, replica):
        setting = self.setting

        def action(seconds):
            with ThreadPoolExecutor() as pool:
                edits = pool.submit(
                    load.pgbench, setting.postgres, self.database(build), [EDIT], setting.folder,
                    "prepared", EDITORS, seconds, LOAD_CORE, self.edits_per_second)
                result = load.wrk(replica.port, self.requests, seconds=seconds,
                                  per_second=PER_SECOND)
                return {**result, "edits_per_second": round(edits.result()["per_second"])}
        return action

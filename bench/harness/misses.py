"""The database alone: pgbench with the service's own statement, over as many connections as the
pool has, against the same database from the same core. Once it has the database's core to itself;
once wrk and Redis take as much of that core as they do during misses."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from . import load
from .http import get
from .rounds import Mode
from .servers import Server
from .stores import SERVER_CORE, logged_statements

POOL = 16
TEXTS = 50
LOWEST_PRIORITY = 19


def phenotype_statements(setting):
    """The statement of a phenotype, for up to `TEXTS` genes."""
    target = f"/v1/genes/{setting.genes[-1]}/phenotype"
    setting.clear_phenotypes()
    found = logged_statements(setting.postgres, setting.database,
                              lambda: cause_miss(setting, target), setting.folder)
    text = [text for text in found if "LEFT JOIN LATERAL" in text and "phenotype" in text][0]
    return [re.sub(r"\$1", f"'{gene}'::uuid", text) for gene in setting.genes[:TEXTS]]


def cause_miss(setting, target):
    # The log setting applies to new connections only, so a new replica is started.
    replica = setting.service.replica("statements", LOG__LEVEL="warn")
    assert get(replica.port, target, setting.key)[0] == 200
    replica.process.stop()


class DatabaseAlone:
    """`misses` and `shared_hits`: the modes that the load beside pgbench follows."""

    def __init__(self, setting, misses, shared_hits):
        self.setting, self.misses, self.shared_hits = setting, misses, shared_hits
        self.statements = phenotype_statements(setting)
        self.rate_factor = 1.0

    def modes(self):
        server = Server("pgbench", self.setting.postgres.process, self.setting.postgres.port)
        return [
            Mode("pgbench: prepared", server, load=lambda s: self.pgbench("prepared", s)),
            Mode("pgbench: unnamed", server, load=lambda s: self.pgbench("extended", s)),
            Mode("pgbench: prepared, beside the load of misses", server, load=self.beside_load)]

    def pgbench(self, mode, seconds):
        setting = self.setting
        return load.pgbench(setting.postgres, setting.database, self.statements, setting.folder,
                            mode, POOL, seconds, SERVER_CORE)

    def beside_load(self, seconds):
        """The load is shared hits, at the rate at which wrk and Redis take as much processor time
        as during misses. The rate follows from the cost of such a hit at full speed, and is
        corrected each time. Postgres has a lower priority: it gets what the load leaves."""
        redis, hits = self.setting.redis.process, self.shared_hits
        wanted = load_share(self.misses.last)
        rate = self.rate_factor * wanted / load_share(hits.last) * hits.last["per_second"]
        with ThreadPoolExecutor() as pool:
            clock, spent = time.monotonic(), redis.cpu_seconds()
            running = pool.submit(hits.load, seconds + 1, rate)
            pgbench = pool.submit(self.pgbench, "prepared", seconds)
            self.lower_priority(pgbench)
            beside = running.result()
            clock, spent = time.monotonic() - clock, redis.cpu_seconds() - spent
            share = beside["load_us"] * beside["per_second"] / 1e6 + spent / clock
            self.rate_factor *= wanted / share
            return {**pgbench.result(), "load_share": round(share, 3)}

    def lower_priority(self, pgbench):
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'"
        found = []
        while len(found) < POOL and not pgbench.done():
            found = self.setting.postgres.sql("postgres", query).split()
        for pid in found:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(pid), LOWEST_PRIORITY)


def load_share(result):
    """The share of the load's core that wrk and Redis take."""
    return (result["load_us"] + result["redis_us"]) * result["per_second"] / 1e6

"""Many replicas under a small load; see bench/fleet."""

import argparse
import asyncio
import gc
import json
import os
import random
import tempfile
from pathlib import Path

from .. import machine, servers
from ..http import get
from ..process import Fleet
from ..stores import LOAD_CORE, Postgres, Redis, api_key
from . import report
from .checks import VISIBLE_SECONDS, Currency, Limits
from .load import Client, Workload, finished, paced, warm
from .meters import Meters, Phase, Session

DATABASE, PREFIX = "registry", "fleet"
REDIS_CONNECTIONS, POLLS, RESERVED = 4 + 4, 2, 10
# Of a key of the load: more than it is used, also while each replica sees it for the first time.
KEY_LIMIT = 6_000
LIMITED_KEYS, LIMIT = 13, 30
MAX_LIMIT = 2_147_483_647
# A search whose genes are edited.
EDITED = "/v1/genes?limit=50"
REST_SECONDS = 20


def options():
    parser = argparse.ArgumentParser(prog="bench/fleet")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--slack", type=float, default=0)
    for name, default in (("replicas", 50), ("rate", 1000), ("seconds", 150), ("keys", 10_000),
                          ("genes", 100_000), ("pool-size", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main():
    chosen = options()
    os.sched_setaffinity(0, {LOAD_CORE})
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Fleet() as fleet:
        folder = Path(folder)
        folder.chmod(0o755)
        run = asyncio.run(measure(chosen, fleet, folder))
    run.machine = machine.describe(("rustc", "postgres", "redis"))
    run.machine["load_average"] = machine.load_average()
    text = report.markdown(run)
    print(text)
    if chosen.results:
        chosen.results.write_text(text)
    print(report.summary(run))
    raise SystemExit(1 if report.failed(run) else 0)


class Run:
    """The servers and keys of a run, and what was measured."""

    def __init__(self, chosen, fleet, folder):
        self.chosen, self.phases, self.load_before = chosen, [], machine.load_average()
        binary = str(Path(chosen.binary).resolve())
        self.bounds = {"Postgres": chosen.replicas * (chosen.pool_size + POLLS),
                       "Redis": chosen.replicas * REDIS_CONNECTIONS}
        self.postgres = Postgres(fleet, folder, binary, [
            f"max_connections = {2 * self.bounds['Postgres'] + RESERVED}",
            "shared_preload_libraries = 'pg_stat_statements'"])
        self.redis = Redis(fleet, folder)
        self.postgres.registry(DATABASE, chosen.genes)
        self.postgres.sql(DATABASE, "CREATE EXTENSION pg_stat_statements")
        self.add_keys()
        settings = {"LOG__LEVEL": "warn", "REDIS__PREFIX": PREFIX,
                    "UPSTREAM__POOL_SIZE": str(chosen.pool_size),
                    "RATE_LIMIT__REPLICAS": str(chosen.replicas)}
        urls = self.postgres.url(DATABASE), self.redis.url
        names = [f"replica-{number}" for number in range(chosen.replicas)]
        self.replicas = [servers.service(fleet, folder, binary, name, *urls, settings)
                         for name in names]
        self.meters = Meters(self.replicas, self.postgres, self.redis, DATABASE)

    def add_keys(self):
        self.keys = [api_key("k", number) for number in range(self.chosen.keys)]
        self.limited = [api_key("l", number) for number in range(LIMITED_KEYS)]
        self.probe_key = api_key("p", 0)
        limits = [(key, KEY_LIMIT) for key in self.keys] + [(self.probe_key, MAX_LIMIT)]
        self.postgres.add_keys(DATABASE, limits + [(key, LIMIT) for key in self.limited])

    def edited_genes(self):
        _, _, body = get(self.replicas[0].port, EDITED, self.probe_key)
        return [gene["id"] for gene in json.loads(body)["data"]]

    def targets(self):
        """2,000 queries, in the order of their frequency."""
        def column(sql):
            return self.postgres.sql(DATABASE, sql).splitlines()

        genes = column("SELECT id FROM registry.gene WHERE published ORDER BY id LIMIT 950")
        domains = column("SELECT domain FROM registry.gene WHERE published GROUP BY domain"
                         " ORDER BY count(*) DESC LIMIT 150")
        sorts = ("fitness", "reputation", "downloads")
        found = [f"/v1/genes/{gene}/phenotype" for gene in self.edited_genes() + genes]
        found += [EDITED] + [f"/v1/genes?sort={sort}&offset={20 * page}"
                             for sort in sorts for page in range(150)]
        found += [f"/v1/genes?sort={sort}&domain={domain}" for sort in sorts for domain in domains]
        found += [f"/v1/arena/insights?domain={domain}" for domain in domains]
        random.Random(1).shuffle(found)
        return found[:2000]


async def measure(chosen, fleet, folder):
    run = Run(chosen, fleet, folder)
    clients = [Client(replica.port) for replica in run.replicas]
    session = Session(run.postgres, DATABASE)
    run.currency = Currency(clients, session, run.probe_key, VISIBLE_SECONDS + chosen.slack)
    run.limits = Limits(clients, run.limited, LIMIT, EDITED)
    run.workload = workload = Workload(run.keys, run.targets())
    gc.freeze()
    async with phase(run, "at rest"):
        await asyncio.sleep(min(REST_SECONDS, chosen.seconds))
    async with phase(run, "first requests"):
        await warm(clients, run.keys + [run.probe_key], workload)
        for key in run.limited:
            await run.limits.burst(key)
    async with phase(run, "no changes") as quiet:
        await asyncio.gather(load(run, quiet, clients, workload), run.limits.bursts(chosen.seconds))
        quiet.unanswered = await finished(clients)
    async with phase(run, "changes") as changing:
        await asyncio.gather(load(run, changing, clients, workload),
                             run.limits.bursts(chosen.seconds), changes(run))
        changing.unanswered = await finished(clients)
    session.close()
    run.meters.session.close()
    return run


def phase(run, name):
    print(f"==> {name}", flush=True)
    run.phases.append(Phase(name, run.meters))
    return run.phases[-1]


async def load(run, phase, clients, workload):
    chance = random.Random(phase.name)

    def send():
        run.currency.send(chance.choice(clients), workload.target(), workload.key(),
                          phase.record)

    phase.late = await paced(run.chosen.rate, run.chosen.seconds, send)


async def changes(run):
    """Each second a change, in turn an edit of a gene and a revocation of a key."""
    genes, running = run.edited_genes(), []
    # The last one has time until it must be visible.
    for number in range(run.chosen.seconds - 4):
        change = (run.currency.revoke(run.keys[-1 - number // 2], EDITED) if number % 2
                  else run.currency.edit(number // 2, genes[number // 2 % len(genes)], EDITED))
        running.append(asyncio.ensure_future(change))
        await asyncio.sleep(1)
    await asyncio.gather(*running)


main()

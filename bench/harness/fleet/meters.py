"""What is measured of a fleet, all from outside of it, and from the metrics of its replicas."""

import asyncio
import collections
import contextlib
import re
import subprocess
import threading
import time
from pathlib import Path

from ..http import get
from ..process import program

STATEMENTS = """SELECT CASE WHEN query LIKE '%requested.hash%' THEN 'keys'
    WHEN query LIKE '%registry_read.api_key%' THEN 'other'
    WHEN query LIKE '%registry_read.change%' THEN 'polls'
    WHEN query LIKE '%registry_read.gene%' THEN 'genes' ELSE 'other' END, sum(calls)
    FROM pg_stat_statements GROUP BY 1"""
CONNECTIONS = """SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND application_name <> 'psql'"""
END = "end of the results"


class Session:
    """A connection to Postgres, so that a statement needs no new one. Its calls block."""

    def __init__(self, postgres, database):
        argv = [program("psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", postgres.url(database)]
        self.psql = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()

    def run(self, sql):
        """The lines of the results, and the time at which they had arrived."""
        with self.lock:
            return self.run_alone(sql)

    def run_alone(self, sql):
        self.psql.stdin.write(f"{sql};\n\\echo {END}\n")
        self.psql.stdin.flush()
        lines = []
        while (line := self.psql.stdout.readline().rstrip("\n")) != END:
            if self.psql.poll() is not None:
                raise SystemExit(f"bench: this statement failed: {sql}")
            lines.append(line)
        return lines, time.monotonic()

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


class Meters:
    def __init__(self, replicas, postgres, redis, database):
        self.replicas, self.postgres, self.redis = replicas, postgres, redis
        self.session = Session(postgres, database)

    def cpu_seconds(self):
        return {"replicas": sum(one.process.cpu_seconds() for one in self.replicas),
                "Postgres": self.postgres.process.cpu_seconds(),
                "Redis": self.redis.process.cpu_seconds(), "load": time.process_time()}

    def counters(self):
        """Everything that only grows, by name."""
        found = collections.Counter()
        for replica in self.replicas:
            found.update(metrics(replica.ops))
        for line in self.session.run(STATEMENTS)[0]:
            kind, calls = line.split("|")
            found[f"statements {kind}"] = int(calls)
        info = self.redis_info()
        for name, value in info.items():
            if name.startswith("cmdstat_"):
                name = name.removeprefix("cmdstat_")
                found[f"commands {name}"] = int(value.partition("calls=")[2].partition(",")[0])
        found["redis in"] = int(info["total_net_input_bytes"])
        found["redis out"] = int(info["total_net_output_bytes"])
        return found

    def redis_info(self):
        lines = self.redis.command("INFO", "everything").splitlines()
        return dict(line.strip().split(":", 1) for line in lines if ":" in line)

    def connections(self):
        """The connections of the replicas to Postgres and Redis; the commands here are one more."""
        return {"Postgres": int(self.session.run(CONNECTIONS)[0][0]),
                "Redis": int(self.redis_info()["connected_clients"]) - 1}

    def memory_mb(self):
        """Resident and proportional memory of each replica, in MB (1,000,000 bytes)."""
        found = {"Rss": [], "Pss": []}
        for replica in self.replicas:
            text = Path(f"/proc/{replica.process.child.pid}/smaps_rollup").read_text()
            for name, sizes in found.items():
                kilobytes = int(re.search(rf"^{name}:\s+(\d+)", text, re.M).group(1))
                sizes.append(kilobytes * 1.024e-3)
        return found


def metrics(port):
    """The counters of a replica."""
    _, _, text = get(port, "/metrics")
    found = collections.Counter()
    for line in text.decode().splitlines():
        name, _, value = line.rpartition(" ")
        if re.match(r"\w+_total\b", name):
            found[name.removeprefix("gene_registry_")] = float(value)
    return found


class Phase:
    """Measures from its beginning to its end: `with` a load inside."""

    def __init__(self, name, meters):
        self.name, self.meters, self.connections = name, meters, {"Postgres": 0, "Redis": 0}
        self.statuses, self.took, self.late, self.unanswered = collections.Counter(), [], [], 0

    async def __aenter__(self):
        self.before = self.meters.counters()
        self.cpu, self.begun = self.meters.cpu_seconds(), time.monotonic()
        self.sampler = asyncio.ensure_future(self.sample())
        return self

    async def __aexit__(self, kind, *_):
        self.seconds = time.monotonic() - self.begun
        self.cpu = {name: spent - self.cpu[name]
                    for name, spent in self.meters.cpu_seconds().items()}
        self.sampler.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.sampler
        if kind is None:
            self.counted = self.meters.counters()
            self.counted.subtract(self.before)
            self.memory = self.meters.memory_mb()

    async def sample(self):
        while True:
            seen = await asyncio.to_thread(self.meters.connections)
            self.connections = {name: max(seen[name], self.connections[name]) for name in seen}
            await asyncio.sleep(1)

    def record(self, response):
        self.statuses[response.status] += 1
        self.took.append(response.took)

    def sum(self, beginning):
        """The sum of the counters whose names begin so."""
        return sum(value for name, value in self.counted.items() if name.startswith(beginning))

"""A change of all genes while many pages are requested from three replicas; see bench/mass-change."""

import argparse
import collections
import http.client
import random
import tempfile
import threading
import time
from pathlib import Path

from . import servers
from .http import get
from .process import Fleet
from .servers import LONG_AGES
from .stores import Postgres, Redis, api_key

REPLICAS = 3
THREADS = 48
GOAL_SECONDS = 5
MAX_LIMIT = 2_147_483_647

# One row in the log, whichever word this release's triggers would use.
CHANGE = """BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE registry.gene SET description = 'after the change';
INSERT INTO registry.change (scope) VALUES ('genes');
COMMIT;"""

Outcome = collections.namedtuple("Outcome", "sent took status is_new")


def main():
    options = argparse.ArgumentParser(prog="bench/mass-change")
    options.add_argument("--binary", required=True)
    for name, default in (("pages", 1000), ("rate", 500), ("seconds", 15), ("genes", 100_000)):
        options.add_argument(f"--{name}", type=int, default=default)
    options = options.parse_args()
    binary = str(Path(options.binary).resolve())
    with tempfile.TemporaryDirectory(prefix="mass-change-") as folder, Fleet() as fleet:
        folder = Path(folder)
        folder.chmod(0o755)
        postgres, redis = Postgres(fleet, folder, binary), Redis(fleet, folder)
        postgres.registry("registry", options.genes)
        key = api_key("mass", 1)
        postgres.add_keys("registry", [(key, MAX_LIMIT)])
        ports = replicas(fleet, folder, binary, postgres, redis)
        pages = [f"/v1/genes?limit={1 + n % 50}&offset={n // 50}" for n in range(options.pages)]
        warm(ports, pages, key)
        outcomes, committed = measure(options, postgres, ports, pages, key)
    raise SystemExit(report(options, outcomes, committed))


def replicas(fleet, folder, binary, postgres, redis):
    settings = {**LONG_AGES, "LOG__LEVEL": "warn", "REDIS__PREFIX": "mass-change",
                "RATE_LIMIT__REPLICAS": str(REPLICAS)}
    urls = postgres.url("registry"), redis.url
    names = [f"replica-{number}" for number in range(REPLICAS)]
    return [servers.service(fleet, folder, binary, name, *urls, settings).port for name in names]


def warm(ports, pages, key):
    for port in ports:
        for page in pages:
            status, _, body = get(port, page, key)
            if status != 200:
                raise SystemExit(f"bench: {page}: {status}: {body.decode()}")


def measure(options, postgres, ports, pages, key):
    """Requests at a fixed rate, whatever the responses take; the change comes after five seconds."""
    begun, before, outcomes = time.monotonic() + 1, 5, []
    stop = threading.Event()
    threads = [
        threading.Thread(target=client, args=(number, begun, options.rate, ports, pages, key, stop,
                                              outcomes))
        for number in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(max(0, begun + before - time.monotonic()))
    postgres.sql("registry", CHANGE)
    committed = time.monotonic()
    time.sleep(options.seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return outcomes, committed


def client(number, begun, rate, ports, pages, key, stop, outcomes):
    """Sends each request whose number is `number` modulo the number of threads, at its time."""
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for port in ports]
    chance = random.Random(number)
    while not stop.is_set():
        time.sleep(max(0, begun + number / rate - time.monotonic()))
        sent = time.monotonic()
        connection = chance.choice(connections)
        connection.request("GET", chance.choice(pages), headers={"X-API-Key": key})
        response = connection.getresponse()
        body = response.read()
        outcomes.append(Outcome(sent, time.monotonic() - sent, response.status,
                                b"after the change" in body))
        number += THREADS


def report(options, outcomes, committed):
    """Prints what was measured; the exit status."""
    after = [one for one in outcomes if one.sent >= committed]
    failed = collections.Counter(one.status for one in outcomes if one.status != 200)
    old = [one.sent - committed for one in after if one.status == 200 and not one.is_new]
    last_old = max(old, default=0)
    took = sorted(one.took for one in after if one.sent < committed + GOAL_SECONDS)
    rate = len(after) / options.seconds
    print(f"{options.pages} pages, {REPLICAS} replicas, {rate:.0f} requests a second")
    print(f"last request with the old state: {last_old:.2f} s after the commit")
    print(f"old responses: {len(old)} of {len(after)}")
    print(f"failed responses: {dict(failed) or 'none'}")
    for name, share in (("median", 0.5), ("99th percentile", 0.99), ("maximum", 1)):
        value = took[min(len(took) - 1, int(share * len(took)))]
        print(f"response time in the first {GOAL_SECONDS} s, {name}: {value * 1000:.1f} ms")
    reached = not failed and last_old <= GOAL_SECONDS and rate >= 0.95 * options.rate
    print("the goal is reached" if reached else "the goal is not reached")
    return 0 if reached else 1


if __name__ == "__main__":
    main()

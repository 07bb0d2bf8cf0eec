"""What a fleet promises, checked under load: limits are exact, and changes are visible in time."""

import asyncio
import collections
import time

from .load import request

# docs/staleness.md: how long after a commit a request may get the state before it.
VISIBLE_SECONDS = 2
# When each replica is asked after a change, until it shows it, and once more after the last one.
STEPS = [step / 4 for step in range(1, 8)]
# Between requests to one replica and the next, so that the requests of one step are no burst.
STAGGER = 0.004

Change = collections.namedtuple("Change", "marker committed")


class Limits:
    """Each burst sends more requests with a key than its limit, to all replicas at once."""

    WINDOW = 60

    def __init__(self, clients, keys, limit, target):
        self.clients, self.limit, self.target = clients, limit, target
        self.free_at, self.wrong, self.windows, self.requests = dict.fromkeys(keys, 0), [], 0, 0
        # Requests that were admitted beyond the limit under load, in all windows.
        self.excess = 0

    async def burst(self, key, is_under_load=False):
        """The first one opens a window, as the one before has ended."""
        head = request(self.target, key)
        clients = self.clients * (2 * self.limit // len(self.clients) + 1)
        statuses = [one.status for one in await asyncio.gather(*(c.get(head) for c in clients))]
        self.free_at[key] = time.monotonic() + self.WINDOW + 1
        self.windows, self.requests = self.windows + 1, self.requests + len(statuses)
        counts = dict(collections.Counter(statuses))
        excess = counts.get(200, 0) - self.limit
        is_exact = excess == 0 or (is_under_load and excess > 0)
        if not is_exact or set(counts) != {200, 429}:
            self.wrong.append(counts)
        self.excess += max(0, excess)

    async def bursts(self, seconds, interval=5):
        end = time.monotonic() + seconds
        while time.monotonic() < end - 1:
            key = min(self.free_at, key=self.free_at.get)
            begin = max(self.free_at[key], time.monotonic() + interval)
            await asyncio.sleep(max(0, min(begin, end) - time.monotonic()))
            if begin < end:
                await self.burst(key, is_under_load=True)


class Currency:
    """Edits genes and revokes keys, and compares every response with what was committed before."""

    def __init__(self, clients, session, probe_key, visible_seconds):
        self.clients, self.session, self.probe_key = clients, session, probe_key
        self.visible_seconds = visible_seconds
        self.pages, self.revoking, self.revoked = {}, set(), {}
        self.committed = collections.Counter()
        # The seconds after the commit at which requests with an old response were sent.
        self.old = {"edit": [], "revocation": []}
        self.unexpected = collections.Counter()

    def send(self, client, target, key, on_response=lambda response: None):
        """Sends a request, and checks its response."""
        change, revoked = self.pages.get(target), self.revoked.get(key)

        def check(response):
            self.check(response, target, key, change, revoked)
            on_response(response)

        client.send(request(target, key), check)

    async def get(self, client, target, key):
        response = asyncio.get_running_loop().create_future()
        self.send(client, target, key, response.set_result)
        return await response

    def check(self, response, target, key, change, revoked):
        """`change` and `revoked` are what was committed when the request was sent."""
        if response.status == 200:
            if revoked:
                self.old["revocation"].append(response.sent - revoked)
            if change and not self.shows(response, target, change):
                self.old["edit"].append(response.sent - change.committed)
        elif response.status != 401 or key not in self.revoking:
            self.unexpected[response.status] += 1

    def shows(self, response, target, change):
        """Whether it shows the change, or a later one of the same gene."""
        return any(one.marker in response.body for one in (change, self.pages[target]))

    async def edit(self, number, gene, page):
        """Renames a gene. `page` is a search that has it, where half of the edits are checked."""
        targets = [f"/v1/genes/{gene}/phenotype", page]
        name = f"edit {number}"
        await self.prepare(targets[number % 2], self.probe_key)
        committed = await self.commit(
            f"UPDATE registry.gene SET name = '{name}' WHERE id = '{gene}'")
        change = Change(f'"{name}"'.encode(), committed)
        self.pages |= dict.fromkeys(targets, change)
        self.committed["edit"] += 1
        await self.probe(targets[number % 2], self.probe_key, committed,
                         lambda response: change.marker in response.body)

    async def revoke(self, key, page):
        await self.prepare(page, key)
        self.revoking.add(key)
        committed = await self.commit(
            "UPDATE registry.api_key SET revoked_at = now()"
            f" WHERE key_hash = sha256('{key}'::bytea)")
        self.revoked[key] = committed
        self.committed["revocation"] += 1
        await self.probe(page, key, committed, lambda response: response.status == 401)

    async def commit(self, sql):
        """When the commit was confirmed, which is shortly after it."""
        return (await asyncio.to_thread(self.session.run, sql))[1]

    async def prepare(self, target, key):
        """Lets every replica cache the old state."""
        await asyncio.gather(*(self.ask_at(number, 0, client, target, key)
                               for number, client in enumerate(self.clients)))

    async def probe(self, target, key, committed, is_new):
        """Asks every replica until it shows the change, and when it must show it."""
        async def one_replica(number, client):
            for step in STEPS:
                wait = committed + step - time.monotonic()
                if is_new(await self.ask_at(number, wait, client, target, key)):
                    break
            await self.ask_at(number, committed + self.visible_seconds - time.monotonic(),
                              client, target, key)

        await asyncio.gather(*(one_replica(*pair) for pair in enumerate(self.clients)))

    async def ask_at(self, number, wait, client, target, key):
        await asyncio.sleep(max(0, wait) + number * STAGGER)
        return await self.get(client, target, key)

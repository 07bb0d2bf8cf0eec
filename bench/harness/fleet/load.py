"""The load: requests over kept-alive connections, all in one thread."""

import asyncio
import itertools
import random
import time
from collections import namedtuple

# Replicas close connections that were idle for 75 s.
MAX_IDLE_SECONDS = 60

# `sent` is a time of the monotonic clock, `took` is in seconds. The status is 0 without a response.
Response = namedtuple("Response", "status body sent took")


def request(target, key):
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key}\r\n\r\n".encode()


class Connection(asyncio.Protocol):
    """An HTTP/1.1 connection with at most one request at a time."""

    def __init__(self, idle):
        self.idle, self.received, self.size = idle, bytearray(), None
        self.on_response, self.sent = None, 0

    def connection_made(self, transport):
        self.transport = transport

    def send(self, head, on_response):
        self.on_response, self.sent = on_response, time.monotonic()
        self.transport.write(head)

    def is_old(self):
        return time.monotonic() - self.sent > MAX_IDLE_SECONDS

    def data_received(self, data):
        self.received += data
        if self.size is None:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return
            _, found, rest = bytes(self.received[:end]).partition(b"\r\ncontent-length: ")
            self.size = end + 4 + int(rest.partition(b"\r\n")[0] if found else 0)
        if len(self.received) >= self.size:
            response, self.received, self.size = bytes(self.received), bytearray(), None
            self.idle.append(self)
            self.finish(int(response[9:12]), response)

    def connection_lost(self, _):
        if self in self.idle:
            self.idle.remove(self)
        if self.on_response:
            self.finish(0, b"")

    def finish(self, status, body):
        on_response, self.on_response = self.on_response, None
        on_response(Response(status, body, self.sent, time.monotonic() - self.sent))


class Client:
    """Sends requests to one replica, each over a connection that is free or new."""

    def __init__(self, port):
        self.port, self.idle, self.opening, self.waiting = port, [], set(), 0

    def send(self, head, on_response):
        def received(response):
            self.waiting -= 1
            on_response(response)

        self.waiting += 1
        while self.idle:
            connection = self.idle.pop()
            if not connection.is_old():
                connection.send(head, received)
                return
            connection.transport.close()
        task = asyncio.ensure_future(self.open(head, received))
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)

    async def open(self, head, on_response):
        loop, begun = asyncio.get_running_loop(), time.monotonic()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self.idle), "127.0.0.1", self.port)
        except OSError:
            on_response(Response(0, b"", begun, time.monotonic() - begun))
            return
        connection.send(head, on_response)

    async def get(self, head):
        response = asyncio.get_running_loop().create_future()
        self.send(head, response.set_result)
        return await response


class Workload:
    """Keys drawn evenly, and targets by Zipf's law: the n-th has the weight 1/n."""

    def __init__(self, keys, targets):
        self.keys, self.targets, self.chance = keys, targets, random.Random(1)
        self.weights = list(itertools.accumulate(1 / rank for rank in range(1, len(targets) + 1)))

    def target(self):
        return self.chance.choices(self.targets, cum_weights=self.weights)[0]

    def key(self):
        return self.chance.choice(self.keys)


async def paced(rate, seconds, send):
    """Calls `send` at a fixed rate, whatever the responses take; by how much each call was late."""
    begun, late = time.monotonic(), []
    for number in range(round(rate * seconds)):
        due = begun + number / rate
        await asyncio.sleep(max(0, due - time.monotonic()))
        late.append(time.monotonic() - due)
        send()
    return late


async def warm(clients, keys, workload):
    """Sends one request with each key to each replica, one at a time for each replica."""
    async def one_replica(number, client):
        shuffled = random.Random(number).sample(keys, len(keys))
        for key in shuffled:
            for _ in range(10):
                response = await client.get(request(workload.target(), key))
                if response.status == 200:
                    break
                # Fifty replicas log in to the database at once.
                await asyncio.sleep(1)
            else:
                raise SystemExit(f"bench: the first request with a key: {response}")

    await asyncio.gather(*(one_replica(*pair) for pair in enumerate(clients)))


async def finished(clients, seconds=15):
    """Waits until every request has its response; how many have none."""
    end = time.monotonic() + seconds
    while (waiting := sum(client.waiting for client in clients)) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return waiting

"""The scenario with the client that aiopenapi3 makes from the document at run time."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiopenapi3
import httpx2

LARGEST = 2**53 - 1
LATER = "db8dde37-1518-4afb-94b1-f5723d34ff6e"
DOCUMENT = httpx2.get(os.environ["BASE_URL"] + "/openapi.json").text


class AnyMembers(aiopenapi3.plugin.Document):
    """aiopenapi3 takes only objects and plain values for members of any type, unless the document does not
    mention them."""

    def parsed(self, ctx: Any) -> Any:
        for name in ("input", "output"):
            del ctx.document["components"]["schemas"]["Phenotype"]["properties"][name]["additionalProperties"]
        return ctx


class Client:
    """The operations, which return a status, the headers and the parsed body."""

    def __init__(self, base: str, key: str, method: str | None = None) -> None:
        def force(request: httpx2.Request) -> None:
            request.method = method or request.method

        def session(**options: Any) -> httpx2.Client:
            return httpx2.Client(**options, event_hooks={"request": [force]})

        # The server's address in the document is relative to that of the document.
        self.api = aiopenapi3.OpenAPI.loads(
            base + "/openapi.json", DOCUMENT, session_factory=session, plugins=[AnyMembers()]
        )
        self.api.authenticate(ApiKey=key)
        self.api.raise_on_http_status = []

    def send(self, operation: str, **parameters: Any) -> tuple[int, httpx2.Headers, Any]:
        _, data, response = self.api.createRequest(operation).request(parameters=parameters)
        return response.status_code, response.headers, data

    def found(self, operation: str, **parameters: Any) -> Any:
        status, _, data = self.send(operation, **parameters)
        assert status == 200, (operation, parameters, status)
        return data


def refused(got: tuple[int, httpx2.Headers, Any], status: int, code: str) -> httpx2.Headers:
    assert got[0] == status, got
    assert str(getattr(got[2].code, "value", got[2].code)) == code and got[2].error, got
    return got[1]


def responses(client: Client) -> None:
    page = client.found("searchGenes", domain="search", fidelity="Native", sort="downloads", limit=2, offset=1)
    assert (page.limit, page.offset, len(page.data)) == (2, 1, 2)
    assert all(gene.domain == "search" for gene in page.data)
    ids: list[Any] = []
    total = 1
    while len(ids) < total:
        part = client.found("searchGenes", limit=50, offset=len(ids))
        total = part.total
        ids += [gene.id for gene in part.data]
    assert len(set(ids)) == total
    best = page.data[0]
    assert client.found("getGenePhenotype", id=str(best.id)).name == best.name
    assert len(client.found("getArenaInsights", domain="search").top_genes) <= 5
    _, headers, _ = client.send("searchGenes", limit=1)
    assert client.send("searchGenes", limit=1, **{"If-None-Match": headers["etag"]})[0] == 304


def existing_registry(client: Client) -> None:
    large = client.found("searchGenes", domain="foreign.large").data[0]
    assert large.name == '\U0001f9ec "\\" \u2028 %'
    assert large.description == "\U0001d4b3" * 20000
    assert (large.downloads, large.arena_history[0].total_calls) == (LARGEST, LARGEST)
    assert large.arena_history[0].evaluated_at.timestamp() == 1_767_206_700
    empty = client.found("searchGenes", domain="foreign.empty").data[0]
    bare = client.found("getGenePhenotype", id=str(empty.id))
    assert bare.compatibility.min_playground_version == "0.0.0"


def errors(client: Client) -> None:
    base = os.environ["BASE_URL"]
    # The client checks ids and bounds itself.
    refused(client.send("getArenaInsights", domain="a\nb"), 400, "MISSING_PARAM")
    refused(client.send("getGenePhenotype", id="11111111-1111-4111-8111-111111111111"), 404, "NOT_FOUND")
    refused(client.send("getArenaInsights", domain="no.such.domain"), 404, "NOT_FOUND")
    refused(Client(base, "wrong").send("searchGenes"), 401, "UNAUTHORIZED")
    refused(Client(base, os.environ["API_KEY"], "POST").send("searchGenes"), 405, "METHOD_NOT_ALLOWED")
    other = Client(os.environ["FAULT_URL"] + "/v1", "any")
    refused(other.send("searchGenes"), 500, "INTERNAL")
    assert str(other.found("getGenePhenotype", id=LATER).id) == LATER


def retry_after(headers: httpx2.Headers) -> int:
    wait = int(headers["retry-after"])
    assert 1 <= wait <= 60
    return wait


def outage(client: Client) -> None:
    refused(client.send("searchGenes", domain="outage"), 502, "DB_ERROR")
    refused(client.send("getArenaInsights", domain="outage"), 502, "DB_ERROR")
    refusing = Client(os.environ["REFUSING_URL"], os.environ["API_KEY"])
    retry_after(refused(refusing.send("searchGenes"), 503, "UNAVAILABLE"))


def limits(client: Client) -> None:
    for _ in range(4):
        got = client.send("searchGenes", limit=1)
        if got[0] != 200:
            break
    time.sleep(retry_after(refused(got, 429, "RATE_LIMITED")))
    client.found("searchGenes", limit=1)


def main() -> None:
    client = Client(os.environ["BASE_URL"], os.environ["API_KEY"])
    if sys.argv[1:] == ["brief"]:
        responses(client)
    elif sys.argv[1:] == ["outage"]:
        outage(client)
    else:
        with ThreadPoolExecutor() as pool:
            limited = pool.submit(limits, Client(os.environ["BASE_URL"], os.environ["SMALL_KEY"]))
            responses(client)
            existing_registry(client)
            errors(client)
            limited.result()
    print("aiopenapi3: passed")


main()

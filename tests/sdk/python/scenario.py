"""The scenario with the client of openapi-python-client."""

import datetime
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from uuid import UUID

import httpx
from registry_client import AuthenticatedClient
from registry_client.api.nonstandard import get_arena_insights, get_gene_phenotype, search_genes
from registry_client.models import (
    ArenaInsights,
    ErrorBody,
    ErrorCode,
    Fidelity,
    GeneOrder,
    GenePage,
    GenePhenotype,
)
from registry_client.types import Response

LARGEST = 2**53 - 1
LATER = UUID("db8dde37-1518-4afb-94b1-f5723d34ff6e")
NO_GENE = UUID("11111111-1111-4111-8111-111111111111")


class PostTransport(httpx.HTTPTransport):
    """Changes the method of the client's requests, since the client itself has only GET."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.method = "POST"
        return super().handle_request(request)


def make(base: str, key: str, transport: httpx.BaseTransport | None = None) -> AuthenticatedClient:
    args: dict[str, Any] = {"transport": transport} if transport else {}
    return AuthenticatedClient(
        base_url=base, token=key, prefix="", auth_header_name="X-API-Key", httpx_args=args
    )


def page(got: Response[Any | ErrorBody | GenePage]) -> GenePage:
    assert isinstance(got.parsed, GenePage), got
    return got.parsed


def phenotype(client: AuthenticatedClient, gene: UUID) -> GenePhenotype:
    parsed = get_gene_phenotype.sync(client=client, id=gene)
    assert isinstance(parsed, GenePhenotype), parsed
    return parsed


def insights(client: AuthenticatedClient, domain: str) -> ArenaInsights:
    parsed = get_arena_insights.sync(client=client, domain=domain)
    assert isinstance(parsed, ArenaInsights), parsed
    return parsed


def refused(got: Response[Any], status: int, code: ErrorCode) -> None:
    assert got.status_code == status, got
    assert isinstance(got.parsed, ErrorBody) and got.parsed.code is code, got
    assert got.parsed.error


def responses(client: AuthenticatedClient) -> None:
    found = page(
        search_genes.sync_detailed(
            client=client,
            domain="search",
            fidelity=Fidelity.NATIVE,
            sort=GeneOrder.DOWNLOADS,
            limit=2,
            offset=1,
        )
    )
    assert (found.limit, found.offset, len(found.data)) == (2, 1, 2)
    assert all(gene.fidelity is Fidelity.NATIVE for gene in found.data)
    ids: list[UUID] = []
    total = 1
    while len(ids) < total:
        part = page(search_genes.sync_detailed(client=client, limit=50, offset=len(ids)))
        total = part.total
        ids += [gene.id for gene in part.data]
    assert len(set(ids)) == total
    assert phenotype(client, found.data[0].id).name == found.data[0].name
    health = insights(client, "search")
    assert health.gene_count > 0 and len(health.top_genes) <= 5
    first = search_genes.sync_detailed(client=client, limit=1)
    tag = first.headers["etag"]
    again = search_genes.sync_detailed(client=client, limit=1, if_none_match=tag)
    assert again.status_code == 304 and again.parsed is None, again


def existing_registry(client: AuthenticatedClient) -> None:
    empty = page(search_genes.sync_detailed(client=client, domain="foreign.empty")).data[0]
    assert empty.to_dict() == {
        "id": "00000000-0000-0000-0000-000000000000",
        "name": "",
        "domain": "foreign.empty",
        "fidelity": "Wrapped",
        "description": "",
        "fitness_score": 0,
        "reputation_score": 0,
        "owner": "",
        "downloads": 0,
        "arena_rank": 0,
        "arena_history": [],
    }
    bare = phenotype(client, empty.id)
    assert bare.phenotype.input_.to_dict() == {"type": "object", "properties": {}}
    assert bare.compatibility.min_playground_version == "0.0.0"
    assert insights(client, "foreign.empty").top_genes == []
    large = page(search_genes.sync_detailed(client=client, domain="foreign.large")).data[0]
    assert large.name == '\U0001f9ec "\\" \u2028 %'
    assert large.description == "\U0001d4b3" * 20000
    assert (large.downloads, large.arena_rank) == (LARGEST, LARGEST)
    assert (large.fitness_score, large.reputation_score) == (1.5, -0.25)
    (entry,) = large.arena_history
    moment = datetime.datetime(2025, 12, 31, 18, 45, tzinfo=datetime.timezone.utc)
    assert (entry.evaluated_at, entry.total_calls) == (moment, LARGEST)


def errors(client: AuthenticatedClient) -> None:
    bad_id = get_gene_phenotype.sync_detailed(client=client, id=cast(UUID, "no-uuid"))
    refused(bad_id, 400, ErrorCode.INVALID_ID)
    too_many = search_genes.sync_detailed(client=client, limit=51)
    refused(too_many, 400, ErrorCode.MISSING_PARAM)
    empty = get_arena_insights.sync_detailed(client=client, domain="")
    refused(empty, 400, ErrorCode.MISSING_PARAM)
    no_gene = get_gene_phenotype.sync_detailed(client=client, id=NO_GENE)
    refused(no_gene, 404, ErrorCode.NOT_FOUND)
    no_domain = get_arena_insights.sync_detailed(client=client, domain="no.such.domain")
    refused(no_domain, 404, ErrorCode.NOT_FOUND)
    stranger = make(os.environ["BASE_URL"], "wrong")
    refused(search_genes.sync_detailed(client=stranger), 401, ErrorCode.UNAUTHORIZED)
    posted = make(os.environ["BASE_URL"], os.environ["API_KEY"], PostTransport())
    refused(search_genes.sync_detailed(client=posted), 405, ErrorCode.METHOD_NOT_ALLOWED)
    # A working service never sends these responses: an error, and one with fields of a later version.
    other = make(os.environ["FAULT_URL"], "any")
    refused(search_genes.sync_detailed(client=other), 500, ErrorCode.INTERNAL)
    assert phenotype(other, LATER).id == LATER


def outage(client: AuthenticatedClient) -> None:
    """The responses of a service without its database, and of one that cannot count."""
    found = search_genes.sync_detailed(client=client, domain="outage")
    refused(found, 502, ErrorCode.DB_ERROR)
    refused(get_gene_phenotype.sync_detailed(client=client, id=NO_GENE), 502, ErrorCode.DB_ERROR)
    health = get_arena_insights.sync_detailed(client=client, domain="outage")
    refused(health, 502, ErrorCode.DB_ERROR)
    refusing = make(os.environ["REFUSING_URL"], os.environ["API_KEY"])
    busy = search_genes.sync_detailed(client=refusing)
    refused(busy, 503, ErrorCode.UNAVAILABLE)
    retry_after(busy)


def retry_after(got: Response[Any]) -> int:
    wait = int(got.headers["retry-after"])
    assert 1 <= wait <= 60
    return wait


def limits(client: AuthenticatedClient) -> None:
    for _ in range(4):
        got = search_genes.sync_detailed(client=client, limit=1)
        if got.status_code != 200:
            break
    refused(got, 429, ErrorCode.RATE_LIMITED)
    time.sleep(retry_after(got))
    page(search_genes.sync_detailed(client=client, limit=1))


def main() -> None:
    client = make(os.environ["BASE_URL"], os.environ["API_KEY"])
    with ThreadPoolExecutor() as pool:
        if sys.argv[1:] == ["brief"]:
            responses(client)
        elif sys.argv[1:] == ["outage"]:
            outage(client)
        else:
            limited = pool.submit(limits, make(os.environ["BASE_URL"], os.environ["SMALL_KEY"]))
            responses(client)
            existing_registry(client)
            errors(client)
            limited.result()
    print("openapi-python-client: passed")


main()

"""Validates responses of the service against its documents with openapi-core: each operation of both APIs,
in both versions of OpenAPI, with each status that can be provoked."""

import json
import os
import urllib.error
import urllib.request
from typing import Any

from openapi_core import OpenAPI
from openapi_core.testing import MockRequest, MockResponse

API = {"X-API-Key": os.environ["API_KEY"]}
CONTROL = {"Authorization": "Bearer " + os.environ["CONTROL_TOKEN"]}
NO_GENE = "/genes/11111111-1111-4111-8111-111111111111/phenotype"


def send(url: str, headers: dict[str, str], body: Any = None) -> tuple[int, Any, bytes]:
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers = headers | {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Validator:
    """Checks responses against one document."""

    def __init__(self, base: str, document: str) -> None:
        self.base = base
        text = json.loads(send(document, {})[2])
        text["servers"] = [{"url": base}]
        self.openapi = OpenAPI.from_dict(text)
        self.checked = 0

    def check(self, status: int, path: str, headers: dict[str, str], body: Any = None) -> bytes:
        got, received, text = send(self.base + path, headers, body)
        assert got == status, (path, got, text)
        path, _, query = path.partition("?")
        root = self.base.index("/", len("http://"))
        request = MockRequest(
            self.base[:root],
            "get" if body is None else "post",
            self.base[root:] + path,
            args=dict(pair.split("=") for pair in query.split("&") if pair),
            headers=headers,
        )
        response = MockResponse(
            text, status, headers=dict(received.items()), content_type=received.get_content_type()
        )
        self.openapi.validate_response(request, response)
        self.checked += 1
        return text


def public(version: str) -> int:
    base = os.environ["BASE_URL"]
    one = Validator(base, f"{base}/openapi.json?version={version}")
    gene = json.loads(one.check(200, "/genes?limit=2&sort=downloads", API))["data"][0]["id"]
    one.check(200, "/genes?domain=search&fidelity=Native&offset=1", API)
    one.check(200, f"/genes/{gene}/phenotype", API)
    one.check(200, "/arena/insights?domain=search", API)
    one.check(400, "/genes?limit=51", API)
    one.check(400, "/genes/no-uuid/phenotype", API)
    one.check(401, "/genes", {})
    one.check(404, NO_GENE, API)
    one.check(404, "/arena/insights?domain=no.such.domain", API)
    return one.checked


def control(version: str) -> int:
    base = os.environ["CONTROL_URL"]
    one = Validator(base, f"{base}/openapi.json?version={version}")
    one.check(200, "/login", {})
    one.check(200, "/whoami", CONTROL)
    one.check(401, "/whoami", {})
    created = one.check(201, "/api-keys", CONTROL, {"name": "validated", "expires_at": "2999-01-01T00:00:00Z"})
    prefix = {"prefix": json.loads(created)["prefix"]}
    one.check(400, "/api-keys", CONTROL, {"name": ""})
    one.check(200, "/api-keys?limit=5", CONTROL)
    one.check(200, "/api-keys/update", CONTROL, prefix | {"never_expires": True})
    rotated = one.check(201, "/api-keys/rotate", CONTROL, prefix | {"overlap_s": 60})
    one.check(409, "/api-keys/rotate", CONTROL, prefix)
    one.check(200, "/api-keys/revoke", CONTROL, {"prefix": json.loads(rotated)["prefix"]})
    one.check(404, "/api-keys/revoke", CONTROL, {"prefix": "gr_zzzz0000"})
    return one.checked


print("openapi-core:", sum(public(v) + control(v) for v in ("3.0", "3.1")), "responses are valid")

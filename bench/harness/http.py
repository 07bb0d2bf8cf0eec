"""Single requests, whose responses are checked."""

import hashlib
import http.client


def get(port, target, key=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        sent["X-API-Key"] = key
    connection.request("GET", target, headers=sent)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def digest(body):
    return hashlib.sha256(body).hexdigest()

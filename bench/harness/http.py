"""One request at a time, to look at an answer."""

import hashlib
import http.client


def get(port, target, key=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        sent["X-API-Key"] = key
    connection.request("GET", target, headers=sent)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def digest(body):
    return hashlib.sha256(body).hexdigest()

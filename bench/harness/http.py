"""Single requests, whose responses are checked."""

import hashlib
import http.client
import ssl

# Certificates of a run are self-signed.
TLS = ssl._create_unverified_context()


def get(port, target, key=None, tls=False, **headers):
    options = {"timeout": 10, **({"context": TLS} if tls else {})}
    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    connection = kind("127.0.0.1", port, **options)
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

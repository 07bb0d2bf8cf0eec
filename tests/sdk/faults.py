"""Sends the responses that tests cannot provoke from the service: the document's example of a phenotype,
and for every other path its example of a 500, both with fields that it does not have, as a later version
could send them. Prints its address."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as file:
    PATHS = json.load(file)["paths"]


def example(path: str, status: str) -> dict:
    return PATHS[path]["get"]["responses"][status]["content"]["application/json"]["example"]


LATER, ERROR = example("/genes/{id}/phenotype", "200"), example("/genes", "500")
for extended in (LATER, LATER["compatibility"], LATER["phenotype"], ERROR):
    extended["added_later"] = {"text": "new", "list": [1, None]}


class Fault(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, value = (200, LATER) if self.path.endswith("/phenotype") else (500, ERROR)
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Fault)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

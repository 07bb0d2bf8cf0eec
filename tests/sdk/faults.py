"""Responds to every request with the document's example of a 500, the one response that tests cannot
provoke from the service. Prints its address."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as file:
    RESPONSES = json.load(file)["paths"]["/genes"]["get"]["responses"]
BODY = json.dumps(RESPONSES["500"]["content"]["application/json"]["example"]).encode()


class Fault(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Fault)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

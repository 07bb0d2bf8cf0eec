"""Answers every request under /STATUS as the document's example for that status has it: for
answers that a healthy service does not give. Prints its address."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as file:
    DOCUMENT = json.load(file)


class Faults(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = self.path.split("/")[1]
        path = "/genes/{id}/phenotype" if "/phenotype" in self.path else "/genes"
        response = DOCUMENT["paths"][path]["get"]["responses"][status]
        body = json.dumps(response["content"]["application/json"]["example"]).encode()
        self.send_response(int(status))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Faults)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

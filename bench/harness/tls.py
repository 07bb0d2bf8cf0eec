"""Hits over TLS, by HTTP/1.1 and HTTP/2: the service beside nginx, with the same cipher."""

import subprocess

from . import load
from .http import digest, get
from .process import program
from .rounds import Mode


def files(folder):
    return {"certificate": folder / "tls.crt", "private_key": folder / "tls.key"}


def settings(folder):
    names = files(folder)
    return {"SERVER__TLS__CERT_FILE": str(names["certificate"]),
            "SERVER__TLS__KEY_FILE": str(names["private_key"])}


def create_certificate(folder):
    names = files(folder)
    subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                    "-keyout", names["private_key"], "-out", names["certificate"]],
                   check=True, capture_output=True)


class TlsHits:
    """One page over TLS, from nginx and from each build of the service."""

    def __init__(self, setting):
        self.setting = setting
        self.target, self.file = setting.responses["20 genes"]
        nginx = next(peer for peer in setting.peers if peer.name == "nginx, no log")
        self.contestants = {nginx.name: (nginx, nginx.tls_port)}
        for build in setting.builds:
            self.contestants[f"{build.name}, no log"] = (build.tls, build.tls.port)

    def url(self, port):
        return f"https://127.0.0.1:{port}{self.target}"

    def check(self):
        """What all contestants negotiate, by protocol. They send the same bytes, too."""
        found, key = {}, self.setting.key
        for protocol in load.PROTOCOLS:
            every = {name: load.negotiated(self.url(port), key, protocol)
                     for name, (_, port) in self.contestants.items()}
            if len(set(every.values())) > 1:
                raise SystemExit(f"bench: contestants negotiate different TLS: {every}")
            found[protocol] = every.popitem()[1]
        for name, (_, port) in self.contestants.items():
            bodies = [get(port, self.target, key, tls=True)[2], self.over_http2(port)]
            if set(map(digest, bodies)) != {digest(self.file.read_bytes())}:
                raise SystemExit(f"bench: {name} responds with other bytes over TLS")
        print(f"  TLS: {found}")
        return found

    def over_http2(self, port):
        argv = [program("nghttp"), "-H", f"X-API-Key: {self.setting.key}", self.url(port)]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    def modes(self):
        return [Mode(f"{name}: TLS, {protocol}", server, load=self.load(port, protocol))
                for protocol in load.PROTOCOLS
                for name, (server, port) in self.contestants.items()]

    def load(self, port, protocol):
        setting = self.setting
        return lambda seconds: load.h2load(
            self.url(port), setting.key, seconds, setting.folder, protocol=protocol)

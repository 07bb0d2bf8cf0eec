"""The servers that are measured: the service, the floor, and the alternatives to the service."""

import json
import re
import time
from pathlib import Path

from .http import get
from .process import free_port, program
from .stores import SERVER_CORE

BENCH = Path(__file__).parent.parent

# A local cache of one byte: every response comes from Redis or from Postgres.
WITHOUT_LOCAL_CACHE = {"CACHE__LOCAL_MAX_BYTES": "1"}
# Longer than any run, so that no background refresh runs during a measurement.
LONG_AGES = {f"CACHE__{kind}__FRESH_S": "36000" for kind in ("SEARCH", "PHENOTYPE", "INSIGHTS")}
WITHOUT_LOG = {"LOG__LEVEL": "warn"}


class Server:
    """`stores`: the processes of the stores that it uses, by name. `ops`: the port of its
    metrics."""

    def __init__(self, name, process, port, stores=None, ops=None, tls_port=None):
        self.name, self.process, self.port = name, process, port
        self.stores, self.ops, self.tls_port = stores or {}, ops, tls_port

    def cpu_seconds(self):
        """Processor time so far: of its own processes, and of each store that it uses."""
        processes = {"cpu": self.process, **self.stores}
        return {name: process.cpu_seconds() for name, process in processes.items()}

    def sources(self):
        """The number of responses so far by where the service found them; {} for other servers."""
        metrics = get(self.ops, "/metrics")[2].decode() if self.ops else ""
        counters = re.findall(r'^gene_registry_answers_total\{source="(.+)"\} (\d+)', metrics, re.M)
        return {source: int(count) for source, count in counters}


def service(fleet, folder, binary, name, database_url, redis_url, settings=None, core=SERVER_CORE):
    """A replica with the default configuration, except for addresses and `settings`."""
    port, ops = free_port(), free_port()
    env = {"SERVER__BIND": f"127.0.0.1:{port}", "OPS__BIND": f"127.0.0.1:{ops}",
           "REDIS__PREFIX": f"bench-{name}", **(settings or {})}
    env = {f"GENE_REGISTRY__{key}": value for key, value in env.items()}
    env |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    ready = folder / f"{name}.ready"
    argv = [binary, "serve", "--ready-file", str(ready)]
    process = fleet.start(argv, core, folder / f"{name}.log", env=env, port=port)
    for _ in range(500):
        if ready.exists() and get(ops, "/readyz")[0] == 200:
            return Server(name, process, port, ops=ops)
        time.sleep(0.02)
    raise SystemExit(f"bench: {name} does not become ready")


def floor(fleet, folder, binary, kind, files):
    """`files`: the file of each target's body."""
    port = free_port()
    pairs = [f"{target}={file}" for target, file in files.items()]
    argv = [binary, kind, f"127.0.0.1:{port}", *pairs]
    process = fleet.start(argv, SERVER_CORE, folder / f"floor-{kind}.log", port=port)
    return Server(f"floor: {kind}", process, port)


def nginx(fleet, folder, template, name, logs, **values):
    """`logs`: whether each request is logged, which is the default."""
    here = folder / name.replace(" ", "-").replace(",", "")
    here.mkdir()
    here.chmod(0o777)
    port, tls_port = free_port(), free_port()
    access_log = f"{here}/access.log" if logs else "off"
    text = (BENCH / "peers" / template).read_text()
    for key, value in {"folder": here, "port": port, "tls_port": tls_port,
                       "access_log": access_log, "peers": BENCH / "peers", **values}.items():
        text = text.replace(f"@{key}@", str(value))
    (here / "nginx.conf").write_text(text)
    argv = [program("nginx"), "-p", str(here), "-c", str(here / "nginx.conf"),
            "-e", str(here / "error.log")]
    process = fleet.start(argv, SERVER_CORE, here / "out.log", port=port)
    return Server(name, process, port, tls_port=tls_port)


def varnish(fleet, folder, origin):
    here, port = folder / "varnish", free_port()
    here.mkdir()
    here.chmod(0o777)
    vcl = (BENCH / "peers" / "varnish.vcl").read_text().replace("@origin@", str(origin))
    (here / "peer.vcl").write_text(vcl)
    argv = [program("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-f", str(here / "peer.vcl"),
            "-n", str(here / "work"), "-s", "malloc,256m"]
    process = fleet.start(argv, SERVER_CORE, here / "out.log", port=port)
    return Server("varnish", process, port)


def demo_start_seconds(fleet, folder, binary):
    """Seconds until the demo has served a request, and its memory then, in MB."""
    port, begun = free_port(), time.monotonic()
    env = {"GENE_REGISTRY__OPS__BIND": "127.0.0.1:0"}
    argv = [binary, "demo", "--bind", f"127.0.0.1:{port}"]
    process = fleet.start(argv, SERVER_CORE, folder / "demo.log", env=env, port=port)
    status, _, body = get(port, "/v1/openapi.json")
    took = time.monotonic() - begun
    assert status == 200 and json.loads(body)
    memory = process.memory_mb()["now"]
    process.stop()
    return took, memory

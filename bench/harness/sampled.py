"""Samples the service while it serves hits and draws a flame graph; `bench/flame` calls this."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from . import flame, load, servers
from .http import get
from .process import Fleet, program
from .side_by_side import MAX_LIMIT, PAGE
from .stores import Postgres, Redis, api_key


def main():
    seconds, binary = float(sys.argv[1]), str(Path("target/release/gene-registry").resolve())
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Fleet() as fleet:
        folder = Path(name)
        folder.chmod(0o755)
        redis, postgres = Redis(fleet, folder), Postgres(fleet, folder, binary)
        postgres.registry("bench", 1000)
        key = api_key("one", 1)
        postgres.add_keys("bench", [(key, MAX_LIMIT)])
        service = servers.service(fleet, folder, binary, "hit", postgres.url("bench"),
                                      redis.url, servers.LONG_AGES)
        assert get(service.port, PAGE, key)[0] == 200
        requests = load.lines_file(folder, "hit", [(PAGE, key, "")])
        wrk = threading.Thread(target=load.wrk, args=(service.port, requests, 64, seconds + 2))
        wrk.start()
        data = folder / "perf.data"
        pid = max(service.process.tree())
        subprocess.run([program("perf"), "record", "-q", "-F", "499", "--call-graph",
                        "dwarf,32768", "-o", data, "-p", str(pid), "--", "sleep", str(seconds)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wrk.join()
        script = subprocess.run([program("perf"), "script", "-i", data], check=True,
                                capture_output=True, text=True, errors="replace").stdout
    flame.draw_all(script.splitlines(), "Local hits, log as by default, limits in Redis")


main()

"""Latency by load: each server at shares of its own highest throughput."""

from . import load
from .side_by_side import PAGE

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
COMPARED = ("floor: hyper", "nginx", "varnish", "nginx-lua", "nginx-lua, no log")


def curves(setting, medians, seconds):
    chosen = {peer.name: peer for peer in setting.peers if peer.name in COMPARED}
    chosen |= {"service": setting.hit, "service, no log": setting.quiet}
    found = {}
    for name, server in chosen.items():
        highest = medians[f"{name}: 20 genes"]["per_second"]
        found[name] = []
        for share in SHARES:
            point = load.paced(server.port, PAGE, setting.key, highest * share, seconds,
                               setting.folder)
            found[name].append({"share": share, **point})
            print(f"  {name:20} {share:4.0%}  {point['per_second']:7}/s  p50 {point['p50_us']}"
                  f"  p99 {point['p99_us']}  p99.9 {point['p999_us']} µs", flush=True)
    return found

"""Latency at fixed rates: of each server at shares of its own highest throughput, and of several at
the same rate."""

from . import load
from .rounds import Mode
from .side_by_side import PAGE

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
COMPARED = ("floor: hyper", "nginx", "varnish", "nginx-lua", "nginx-lua, no log")
FIXED_RATE = 20_000


def named_peers(setting, names):
    return {peer.name: peer for peer in setting.peers if peer.name in names}


def hits_at(setting, server, per_second, seconds):
    return load.h2load(f"http://127.0.0.1:{server.port}{PAGE}", setting.key, seconds,
                       setting.folder, per_second)


def modes(setting):
    """Hits at one rate for all, with the logs that are on by default."""
    contestants = named_peers(setting, ("nginx", "nginx-lua"))
    contestants |= {build.name: build.hit for build in setting.builds}
    return [Mode(f"fixed rate: {name}", server, load=lambda seconds, server=server: hits_at(
                setting, server, FIXED_RATE, seconds))
            for name, server in contestants.items()]


def curves(setting, medians, seconds):
    found = {}
    contestants = {**named_peers(setting, COMPARED), **setting.service.logging}
    for name, server in contestants.items():
        highest = medians[f"{name}: 20 genes"]["per_second"]
        found[name] = []
        for share in SHARES:
            point = hits_at(setting, server, highest * share, seconds)
            found[name].append({"share": share, **point})
            print(f"  {name:20} {share:4.0%}  {point['per_second']:7}/s  p50 {point['p50_us']}"
                  f"  p99 {point['p99_us']}  p99.9 {point['p999_us']} µs", flush=True)
    return found

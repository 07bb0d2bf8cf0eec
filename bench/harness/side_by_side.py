"""The modes of the comparison: every server sends the same bytes."""

import gzip

from . import load, servers
from .servers import LONG_AGES, WITHOUT_LOCAL_CACHE
from .http import digest, get
from .rounds import Mode
from .stores import api_key

MAX_LIMIT = 2_147_483_647
KEYS, KEYS_LIMIT = 1000, 5999
PAGE = "/v1/genes?domain=bench.large&limit=20"


class Setting:
    """What the modes share: stores, keys, pages, and one server of each kind."""

    def __init__(self, fleet, folder, binaries, postgres, redis, database, keys=KEYS):
        self.folder, self.redis = folder, redis
        self.key, self.exhausted = api_key("one", 1), api_key("tight", 1)
        self.many = [api_key("k", number) for number in range(keys)]
        limits = [(self.key, MAX_LIMIT), (self.exhausted, 1)] + [(k, KEYS_LIMIT) for k in self.many]
        postgres.add_keys(database, limits)
        self.genes = postgres.sql(
            database, "SELECT id FROM registry.gene WHERE published ORDER BY id LIMIT 100000"
        ).split()

        def replica(name, redis_url=redis.url, **settings):
            return servers.service(fleet, folder, binaries["service"], name,
                                       postgres.url(database), redis_url, settings)

        self.replica = replica
        self.hit = replica("hit", **LONG_AGES)
        self.quiet = replica("quiet", **LONG_AGES, LOG__LEVEL="warn")
        bare = {**LONG_AGES, **WITHOUT_LOCAL_CACHE, "LOG__LEVEL": "warn"}
        self.shared = replica("shared", **bare)
        self.unnamed = replica("unnamed", **bare, UPSTREAM__PREPARED_STATEMENTS="false")
        self.without_redis = replica("alone", redis_url="", **bare)
        self.small = self.page_near(2048)
        self.responses = {}
        for name, target in (("20 genes", PAGE), ("2 KB", self.small)):
            file = folder / f"{digest(target.encode())[:8]}.json"
            file.write_bytes(get(self.hit.port, target, self.key)[2])
            self.responses[name] = (target, file)
        files = {target: file for target, file in self.responses.values()}
        keys_file = folder / "keys.txt"
        keys_file.write_text("".join(f"{key} {limit}\n" for key, limit in limits))
        bare = servers.floor(fleet, folder, binaries["floor"], "hyper", files)
        lua = {"origin": bare.port, "redis": redis.port, "keys": keys_file}
        peer = lambda *arguments, **values: servers.nginx(fleet, folder, *arguments, **values)
        self.peers = [
            bare,
            servers.floor(fleet, folder, binaries["floor"], "poem", files),
            peer("nginx.conf", "nginx", True, origin=bare.port),
            peer("nginx.conf", "nginx, no log", False, origin=bare.port),
            servers.varnish(fleet, folder, bare.port),
            peer("nginx-lua.conf", "nginx-lua", True, **lua),
            peer("nginx-lua.conf", "nginx-lua, no log", False, **lua),
        ]
        self.lua = {peer.name: peer for peer in self.peers if "lua" in peer.name}

    def page_near(self, size):
        """The page whose plain size is nearest to `size`."""
        targets = [f"/v1/genes?domain=bench.large&limit={limit}" for limit in range(1, 21)]
        return min(targets, key=lambda target: abs(
            len(get(self.quiet.port, target, self.key)[2]) - size))

    def check_responses(self):
        """Every server responds twice with 200 and the same bytes, at last from its cache."""
        for name, (target, file) in self.responses.items():
            expected = digest(file.read_bytes())
            for peer in [*self.peers, self.hit, self.quiet, self.shared]:
                for _ in range(2):
                    status, _, body = get(peer.port, target, self.key)
                    if (status, digest(body)) != (200, expected):
                        raise SystemExit(f"bench: {peer.name} responds {status} with other bytes"
                                         f" to {target}")
            print(f"  {name}: {file.stat().st_size} bytes, SHA-256 {expected[:16]}…, from all")

    def load_keys(self):
        """Makes each replica load every key; retries, since it bounds the rate of look-ups."""
        for replica in (self.hit, self.quiet):
            for key in self.many:
                while get(replica.port, PAGE, key)[0] == 503:
                    pass

    def requests(self, name, lines):
        return load.lines_file(self.folder, name, lines)

    def modes(self):
        return [*self.hit_modes(), *self.key_modes(), *self.other_modes(), *self.slow_modes()]

    def hit_modes(self):
        found = []
        for size, (target, _) in self.responses.items():
            file = self.requests(f"hit-{size.replace(' ', '-')}", [(target, self.key, "")])
            found += [Mode(f"{peer.name}: {size}", peer, file) for peer in self.peers]
            found.append(Mode(f"service: {size}", self.hit, file))
            found.append(Mode(f"service, no log: {size}", self.quiet, file))
        return found

    def key_modes(self):
        file = self.requests("keys", [(PAGE, key, "") for key in self.many])
        found = [Mode(f"{name}: {len(self.many)} keys", peer, file)
                 for name, peer in self.lua.items()]
        return found + [Mode(f"service: {len(self.many)} keys", self.hit, file),
                        Mode(f"service, no log: {len(self.many)} keys", self.quiet, file)]

    def other_modes(self):
        status, headers, _ = get(self.quiet.port, PAGE, self.key)
        tag = headers["etag"]
        packed = get(self.quiet.port, PAGE, self.key, Accept_Encoding="gzip")
        assert packed[1]["content-encoding"] == "gzip" and gzip.decompress(packed[2])
        same_size_page = self.page_near(len(packed[2]))
        get(self.quiet.port, PAGE, self.exhausted)

        def mode(name, expect, *line):
            return Mode(f"service, no log: {name}", self.quiet, self.requests(
                name.replace(" ", "-"), [line]), expect)

        return [
            mode("304", 304, PAGE, self.key, f"If-None-Match: {tag}"),
            mode("gzip", 200, PAGE, self.key, "Accept-Encoding: gzip"),
            mode("plain as large as gzip", 200, same_size_page, self.key, ""),
            mode("429", 429, PAGE, self.exhausted, ""),
            mode("401", 401, PAGE, api_key("nobody", 1)[:-1] + "!", ""),
        ]

    def slow_modes(self):
        pages = [(f"/v1/genes?domain=bench.large&limit=20&offset={n}", self.key, "")
                 for n in range(0, 50)]
        for target, key, _ in pages:
            get(self.shared.port, target, key)
        misses = [(f"/v1/genes/{gene}/phenotype", self.key, "") for gene in self.genes]
        return [
            Mode("service, no log: shared hit", self.shared, self.requests("shared", pages)),
            *(Mode(f"service, no log: {name}", replica, self.requests("miss", misses), "miss",
                   before=self.clear_phenotypes)
              for name, replica in (("miss", self.shared), ("miss, unnamed", self.unnamed),
                                    ("miss, without Redis", self.without_redis))),
        ]

    def clear_phenotypes(self):
        """Deletes the phenotypes in Redis; counters and pages stay."""
        self.redis.command("EVAL", "for _, k in ipairs(redis.call('KEYS', '*phenotype*')) do"
                       " redis.call('UNLINK', k) end", "0")

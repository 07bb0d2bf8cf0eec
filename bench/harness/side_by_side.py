"""The modes of the comparison: every server sends the same bytes."""

import gzip

from . import load, servers, tls
from .servers import LONG_AGES, WITHOUT_LOCAL_CACHE, WITHOUT_LOG
from .http import digest, get
from .rounds import Mode
from .stores import api_key

MAX_LIMIT = 2_147_483_647
KEYS, KEYS_LIMIT = 1000, 5999
PAGE = "/v1/genes?domain=bench.large&limit=20"
BEFORE_BOLT = "service, no log, before BOLT"


class Program:
    """One program of the service."""

    def __init__(self, setting, name, binary):
        self.setting, self.name, self.binary = setting, name, binary

    def replica(self, name, database=None, has_redis=True, **settings):
        setting = self.setting
        stores = {"postgres": setting.postgres.process}
        if has_redis:
            stores["redis"] = setting.redis.process
        server = servers.service(
            setting.fleet, setting.folder, self.binary, f"{self.name}-{name}",
            setting.postgres.url(database or setting.database),
            setting.redis.url if has_redis else "", settings)
        server.stores = stores
        return server


class Build(Program):
    """A program with its replicas in the configurations that are measured."""

    def __init__(self, setting, name, binary):
        super().__init__(setting, name, binary)
        bare = {**LONG_AGES, **WITHOUT_LOCAL_CACHE, **WITHOUT_LOG}
        self.hit = self.replica("hit", **LONG_AGES)
        self.quiet = self.replica("quiet", **LONG_AGES, **WITHOUT_LOG)
        self.tls = self.replica("tls", **LONG_AGES, **WITHOUT_LOG, **tls.settings(setting.folder))
        self.shared = self.replica("shared", **bare)
        self.without_redis = self.replica("alone", has_redis=False, **bare)
        self.logging = {self.name: self.hit, f"{self.name}, no log": self.quiet}


class Setting:
    """What the modes share: stores, keys, pages, and one server of each kind."""

    def __init__(self, fleet, folder, binaries, postgres, redis, database, keys=KEYS):
        self.fleet, self.folder, self.database = fleet, folder, database
        self.postgres, self.redis = postgres, redis
        self.key, self.exhausted = api_key("one", 1), api_key("tight", 1)
        self.many = [api_key("k", number) for number in range(keys)]
        limits = [(self.key, MAX_LIMIT), (self.exhausted, 1)] + [(k, KEYS_LIMIT) for k in self.many]
        postgres.add_keys(database, limits)
        self.genes = postgres.sql(
            database, "SELECT id FROM registry.gene WHERE published ORDER BY id").split()
        tls.create_certificate(folder)
        self.service = Build(self, "service", binaries["service"])
        self.builds = [self.service, Build(self, "1.0.0", binaries["1.0.0"])]
        bare = {**LONG_AGES, **WITHOUT_LOCAL_CACHE, **WITHOUT_LOG}
        self.unnamed = self.service.replica(
            "unnamed", **bare, UPSTREAM__PREPARED_STATEMENTS="false")
        self.before_bolt = self.start_before_bolt(binaries)
        self.responses = self.save_responses()
        self.peers = self.start_peers(binaries["floor"], limits)
        self.lua = {peer.name: peer for peer in self.peers if "lua" in peer.name}

    def start_before_bolt(self, binaries):
        """The measured build as it was before BOLT, if BOLT has optimized it."""
        if BEFORE_BOLT not in binaries:
            return {}
        program = Program(self, "before-bolt", binaries[BEFORE_BOLT])
        return {BEFORE_BOLT: program.replica("quiet", **LONG_AGES, **WITHOUT_LOG)}

    def save_responses(self):
        """The target and the file of each response that all servers send."""
        found = {}
        for name, target in (("20 genes", PAGE), ("2 KB", self.page_near(2048))):
            file = self.folder / f"{digest(target.encode())[:8]}.json"
            file.write_bytes(get(self.service.hit.port, target, self.key)[2])
            found[name] = (target, file)
        return found

    def start_peers(self, floor, limits):
        files = {target: file for target, file in self.responses.values()}
        keys_file = self.folder / "keys.txt"
        keys_file.write_text("".join(f"{key} {limit}\n" for key, limit in limits))
        bare = servers.floor(self.fleet, self.folder, floor, "hyper", files)
        plain = {"origin": bare.port, **tls.files(self.folder)}
        lua = {"origin": bare.port, "redis": self.redis.port, "keys": keys_file}
        peer = lambda *arguments, **values: servers.nginx(
            self.fleet, self.folder, *arguments, **values)
        found = [
            bare,
            servers.floor(self.fleet, self.folder, floor, "poem", files),
            peer("nginx.conf", "nginx", True, **plain),
            peer("nginx.conf", "nginx, no log", False, **plain),
            servers.varnish(self.fleet, self.folder, bare.port),
            peer("nginx-lua.conf", "nginx-lua", True, **lua),
            peer("nginx-lua.conf", "nginx-lua, no log", False, **lua),
        ]
        for server in found[-2:]:
            server.stores = {"redis": self.redis.process}
        return found

    def page_near(self, size):
        """The page whose plain size is nearest to `size`."""
        targets = [f"/v1/genes?domain=bench.large&limit={limit}" for limit in range(1, 21)]
        return min(targets, key=lambda target: abs(
            len(get(self.service.quiet.port, target, self.key)[2]) - size))

    def check_responses(self):
        """Every server responds twice with 200 and the same bytes, at last from its cache."""
        for name, (target, file) in self.responses.items():
            expected = digest(file.read_bytes())
            replicas = [replica for build in self.builds
                        for replica in (build.hit, build.quiet, build.shared)]
            for peer in [*self.peers, *replicas]:
                for _ in range(2):
                    status, _, body = get(peer.port, target, self.key)
                    if (status, digest(body)) != (200, expected):
                        raise SystemExit(f"bench: {peer.name} responds {status} with other bytes"
                                         f" to {target}")
            print(f"  {name}: {file.stat().st_size} bytes, SHA-256 {expected[:16]}…, from all")

    def load_keys(self):
        """Makes each replica load every key; retries, since it bounds the rate of look-ups."""
        for build in self.builds:
            for replica in build.logging.values():
                for key in self.many:
                    while get(replica.port, PAGE, key)[0] == 503:
                        pass

    def requests(self, name, lines):
        return load.lines_file(self.folder, name, lines)

    def modes(self, parts):
        """The modes of these parts."""
        found = []
        if "hits" in parts:
            found += [*self.hit_modes("20 genes"), *self.key_modes(), *self.other_modes()]
        if "small" in parts:
            found += self.hit_modes("2 KB")
        if "hits" in parts or "misses" in parts:
            found += self.shared_modes()
        if "misses" in parts:
            found += self.miss_modes()
        return found

    def hit_modes(self, size):
        target, _ = self.responses[size]
        file = self.requests(f"hit-{size.replace(' ', '-')}", [(target, self.key, "")])
        contestants = {peer.name: peer for peer in self.peers}
        for build in self.builds:
            contestants |= build.logging
        contestants |= self.before_bolt
        return [Mode(f"{name}: {size}", server, file) for name, server in contestants.items()]

    def key_modes(self):
        file = self.requests("keys", [(PAGE, key, "") for key in self.many])
        contestants = dict(self.lua)
        for build in self.builds:
            contestants |= build.logging
        return [Mode(f"{name}: {len(self.many)} keys", server, file)
                for name, server in contestants.items()]

    def other_modes(self):
        quiet = self.service.quiet
        status, headers, _ = get(quiet.port, PAGE, self.key)
        tag = headers["etag"]
        packed = get(quiet.port, PAGE, self.key, Accept_Encoding="gzip")
        assert packed[1]["content-encoding"] == "gzip" and gzip.decompress(packed[2])
        same_size_page = self.page_near(len(packed[2]))
        get(quiet.port, PAGE, self.exhausted)

        def mode(name, expect, *line):
            return Mode(f"service, no log: {name}", quiet, self.requests(
                name.replace(" ", "-"), [line]), expect)

        return [
            mode("304", 304, PAGE, self.key, f"If-None-Match: {tag}"),
            mode("gzip", 200, PAGE, self.key, "Accept-Encoding: gzip"),
            mode("plain as large as gzip", 200, same_size_page, self.key, ""),
            mode("429", 429, PAGE, self.exhausted, ""),
            mode("401", 401, PAGE, api_key("nobody", 1)[:-1] + "!", ""),
        ]

    def shared_modes(self):
        file = self.shared_requests()
        return [Mode(f"{build.name}, no log: shared hit", build.shared, file, source="shared")
                for build in self.builds]

    def miss_modes(self):
        misses = self.requests("miss", [
            (f"/v1/genes/{gene}/phenotype", self.key, "") for gene in self.genes])

        def miss(name, replica):
            return Mode(name, replica, misses, before=self.clear_phenotypes, source="miss")

        found = [miss("service, no log: miss, unnamed", self.unnamed)]
        for build in self.builds:
            name = f"{build.name}, no log"
            found += [miss(f"{name}: miss", build.shared),
                      miss(f"{name}: miss, without Redis", build.without_redis)]
        return found

    def shared_requests(self):
        """Requests of pages that are in Redis. They are many, because the local cache has a page
        for a moment, although it has no room for it."""
        pages = [(f"/v1/genes?domain=bench.large&limit=20&offset={n}", self.key, "")
                 for n in range(0, 500)]
        for build in self.builds:
            for target, key, _ in pages:
                get(build.shared.port, target, key)
        return self.requests("shared", pages)

    def clear_phenotypes(self):
        """Deletes the phenotypes in Redis; counters and pages stay."""
        self.redis.command("EVAL", "for _, k in ipairs(redis.call('KEYS', '*phenotype*')) do"
                       " redis.call('UNLINK', k) end", "0")

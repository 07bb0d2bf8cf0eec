"""Starts the compose stack of a checkout and checks it: stack.py CHECKOUT [SERVICE]...

The services named are left out, because there is no image of them here. Prints each check, and ends with 1 if
one has failed."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

PROJECT = f"gene-registry-test-{os.getpid()}"
PUBLIC, CONTROL, PROMETHEUS, GRAFANA = 18080, 18081, 19090, 13000
# For what takes a moment, with a margin for a loaded machine.
TIMEOUT = 120
OURS = ("api", "control", "files", "maintain", "migrate", "seed")


class Failed(Exception):
    """A check that failed."""


def require(condition, message):
    if not condition:
        raise Failed(message)


def run(*words, check=True, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if check and done.returncode:
        raise Failed(f"{' '.join(words)}: exit status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr


def docker(*words, **options):
    return run("docker", *words, **options)


def until(what, condition, timeout=TIMEOUT):
    """Waits until the condition returns something true, and returns that."""
    end, last = time.monotonic() + timeout, None
    while time.monotonic() < end:
        try:
            if result := condition():
                return result
        except (OSError, Failed, LookupError) as error:
            last = error
        time.sleep(0.2)
    raise Failed(f"not within {timeout} s: {what} ({last})")


def get(url, key=None, timeout=5):
    """The status and the body of a response."""
    request = urllib.request.Request(url, headers={"X-API-Key": key} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Load:
    """Requests, one after the other in each of some threads, until the end of the block."""

    def __init__(self, url, key, threads=4):
        self.url, self.key, self.results, self.ended = url, key, [], threading.Event()
        self.threads = [threading.Thread(target=self.send) for _ in range(threads)]

    def send(self):
        while not self.ended.is_set():
            try:
                status, body = get(self.url, self.key)
                self.results.append(status if status != 200 or "total" in body else body)
            except OSError as error:
                self.results.append(repr(error))
            time.sleep(0.02)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def require_success(self):
        failed = [result for result in self.results if result != 200]
        require(len(self.results) > 100, f"only {len(self.results)} requests")
        require(not failed, f"{len(failed)} of {len(self.results)} requests failed: {failed[:5]}")


class Stack:
    """The compose stack of a checkout, under a name and ports of its own."""

    def __init__(self, checkout, left_out):
        self.checkout, self.version, self.profiles, self.left_out = checkout, f"test-{os.getpid()}", "", left_out
        self.override = checkout / "override.yml"
        ports = {"haproxy": (PUBLIC, 8080), "control": (CONTROL, 8081), "prometheus": (PROMETHEUS, 9090), "grafana": (GRAFANA, 3000)}
        text = "services:\n"
        for name, (outside, inside) in ports.items():
            text += f"  {name}:\n    ports: !override [\"127.0.0.1:{outside}:{inside}\"]\n"
            if name in left_out:
                text += "    profiles: [left-out]\n"
        text += "  api:\n    environment:\n      GENE_REGISTRY__SERVER__DRAIN_MS: ${DRAIN_MS:-3000}\n"
        self.override.write_text(text)
        self.key = (checkout / "config/compose/demo-api-key.txt").read_text().split()[-1]
        self.url = f"http://127.0.0.1:{PUBLIC}/v1/genes?limit=1"
        self.load_key, self.canary_key = "", ""
        self.tokens, self.drain_ms = "[]", "3000"

    def environment(self):
        return os.environ | {
            "COMPOSE_PROJECT_NAME": PROJECT,
            "COMPOSE_FILE": f"{self.checkout}/docker-compose.yml:{self.override}",
            "COMPOSE_PROFILES": self.profiles,
            "VERSION": self.version,
            "CONTROL_TOKENS": self.tokens,
            "CANARY_API_KEY": self.canary_key,
            "DRAIN_MS": self.drain_ms,
        }

    def compose(self, *words, **options):
        return docker("compose", *words, cwd=self.checkout, env=self.environment(), **options)

    def ids(self, *services):
        return self.compose("ps", "--all", "--quiet", *services).split()

    def inspect(self):
        """What the engine knows of each container, by service."""
        found = {}
        for container in json.loads(docker("inspect", *self.ids())):
            found.setdefault(container["Config"]["Labels"]["com.docker.compose.service"], []).append(container)
        return found

    def new_key(self, limit):
        words = ("api-key", "create", "--direct", "--owner", "test", "--name", f"limit {limit}", "--rate-limit", str(limit))
        return re.search(r"gr_[0-9A-Za-z_]+", self.compose("run", "--rm", "--no-deps", "migrate", *words))[0]

    def load(self):
        self.load_key = self.load_key or self.new_key(1_000_000)
        return Load(self.url, self.load_key)

    def targets(self):
        _, text = get(f"http://127.0.0.1:{PROMETHEUS}/api/v1/targets")
        return [target["health"] for target in json.loads(text)["data"]["activeTargets"]]

    def serves(self):
        return get(self.url, self.key)[0] == 200


def starts(stack):
    stack.compose("up", "--build", "--detach")
    until("everything is healthy, or has ended well", lambda: all_healthy(stack))
    require(len(stack.ids("api")) == 3, "there are three replicas")


def all_healthy(stack):
    for service, containers in stack.inspect().items():
        for container in containers:
            state = container["State"]
            good = state.get("Health", {}).get("Status", "healthy") == "healthy" and (state["Running"] or state["ExitCode"] == 0)
            require(good, f"{service}: {state['Status']}, exit status {state['ExitCode']}, {state.get('Health')}")
    return True


def the_start_can_be_waited_for(stack):
    stack.compose("up", "--detach", "--wait")


def the_readmes_request_works(stack):
    readme = (stack.checkout / "README.md").read_text()
    command = next(line for line in readme.splitlines() if line.startswith("curl") and "demo-api-key" in line)
    answer = run("sh", "-c", command.replace("localhost:8080", f"127.0.0.1:{PUBLIC}"), cwd=stack.checkout)
    require('"total"' in answer, answer)


def a_second_start_recreates_nothing(stack):
    """Case 76."""
    for profiles in ("", "control"):
        before = set(stack.ids())
        stack.profiles = profiles
        said = stack.compose("up", "--detach")
        require("Recreate" not in said, f"profiles '{profiles}': {said}")
        require(before <= set(stack.ids()), f"profiles '{profiles}': containers were replaced")


def users_log_in(stack):
    printed = stack.compose("run", "--rm", "--no-deps", "control", "token", "new", "--user", "me")
    token, digest = re.search(r"grt_\w+", printed)[0], re.search(r"[0-9a-f]{64}", printed)[0]
    stack.tokens = f'[{{user="me",sha256="{digest}"}}]'
    stack.compose("up", "--detach", "--wait", "control")
    request = urllib.request.Request(f"http://127.0.0.1:{CONTROL}/control/v1/whoami", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=5) as response:
        require("me" in response.read().decode(), "whoami names the user")
    require(get(f"http://127.0.0.1:{CONTROL}/control/v1/whoami")[0] == 401, "no token is refused")


def the_canary_finds_nothing(stack):
    """With all replicas that the DNS returns."""
    stack.canary_key, stack.profiles = stack.new_key(100), "control,canary"
    stack.compose("up", "--detach", "--wait", "canary")
    def checked():
        _, text = get(f"http://127.0.0.1:{PROMETHEUS}/api/v1/query?query=gene_registry_canary_broken")
        return {one["metric"]["check"]: one["value"][1] for one in json.loads(text)["data"]["result"]}
    found = until("Prometheus has its results", lambda: len(checked()) == 6 and checked())
    require(set(found.values()) == {"0"}, f"the canary reports {found}: {stack.compose('logs', 'canary')}")
    stack.compose("rm", "--stop", "--force", "canary")
    stack.profiles = "control"


def limits_are_exact(stack):
    limit = 30
    key, statuses = stack.new_key(limit), []

    def send():
        statuses.extend(get(stack.url, key)[0] for _ in range(40))
    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = {status: statuses.count(status) for status in set(statuses)}
    require(counts == {200: limit, 429: 200 - limit}, f"of 200 requests with a limit of {limit}: {counts}")


def prometheus_sees_the_replicas(stack):
    until("each replica is a target, and up", lambda: stack.targets() == ["up"] * 3)
    _, text = get(f"http://127.0.0.1:{PROMETHEUS}/api/v1/rules")
    rules = [rule for group in json.loads(text)["data"]["groups"] for rule in group["rules"]]
    require(len(rules) > 25 and {rule["health"] for rule in rules} <= {"ok", "unknown"}, f"{len(rules)} rules: {rules}")


def containers_are_confined(stack):
    """Case 80: the log is bounded, and no volume is anonymous."""
    for service, containers in stack.inspect().items():
        for container in containers:
            config = container["HostConfig"]
            require(config["LogConfig"]["Config"].get("max-size"), f"{service}: its log may fill the disk")
            require("ALL" in (config["CapDrop"] or []), f"{service}: keeps capabilities")
            require("no-new-privileges:true" in (config["SecurityOpt"] or []), f"{service}: may gain privileges")
            anonymous = [mount for mount in container["Mounts"] if re.fullmatch("[0-9a-f]{64}", mount.get("Name", ""))]
            require(not anonymous, f"{service}: an anonymous volume at {[mount['Destination'] for mount in anonymous]}")
            if service not in ("postgres", "redis"):
                require(config["ReadonlyRootfs"], f"{service}: may write to its file system")
    for container in stack.ids("api"):
        require(docker("exec", container, "id", "-u").strip() == "10001", "a replica runs as another user")
        require("Read-only" in docker("exec", container, "touch", "/x", check=False), "a replica may write to its file system")


def no_log_has_the_key(stack):
    """Case 80."""
    require(stack.key not in stack.compose("logs", "--no-color"), "the demo key is in a log")


def a_killed_replica_fails_no_request(stack):
    container = stack.ids("api")[0]
    pid = json.loads(docker("inspect", container))[0]["State"]["Pid"]
    require(container in pathlib.Path(f"/proc/{pid}/cgroup").read_text(), "the engine runs on another machine")
    with stack.load() as load:
        time.sleep(1)
        os.kill(pid, 9)
        until("it is started again", lambda: healthy(container, pid))
        time.sleep(1)
    load.require_success()


def healthy(container, other_than=None):
    state = json.loads(docker("inspect", container))[0]["State"]
    return state["Pid"] != other_than and state["Health"]["Status"] == "healthy"


def stores_may_stop(stack):
    stack.compose("stop", "redis")
    with stack.load() as load:
        time.sleep(5)
    load.require_success()
    stack.compose("start", "redis")
    stack.compose("stop", "postgres")
    with stack.load() as load:
        time.sleep(5)
    load.require_success()
    uncached = stack.url + "&domain=uncached.domain"
    require(get(uncached, stack.key)[0] == 502, "without Postgres, what is not cached is 502")
    stack.compose("start", "postgres")
    until("Postgres is read again", lambda: get(uncached, stack.key)[0] == 200)


def a_failed_upgrade_leaves_the_replicas(stack):
    """The new replicas do not start, because a setting is invalid."""
    before, stack.drain_ms = set(stack.ids("api")), "never"
    with stack.load() as load:
        try:
            run("config/compose/upgrade", cwd=stack.checkout, env=stack.environment())
        except Failed:
            pass
        else:
            raise Failed("the upgrade did not fail")
        finally:
            stack.drain_ms = "3000"
    load.require_success()
    require(set(stack.ids("api")) == before, "the replicas are not those of before")


def an_upgrade_fails_no_request(stack):
    """Case 77."""
    before = set(stack.ids("api", "maintain", "control"))
    stack.version += "-next"
    with stack.load() as load:
        time.sleep(1)
        run("config/compose/upgrade", cwd=stack.checkout, env=stack.environment())
        time.sleep(1)
    load.require_success()
    containers = [one for service in ("api", "maintain", "control") for one in stack.inspect()[service]]
    require(not before & {one["Id"] for one in containers}, "an old container is left")
    require(len(stack.ids("api")) == 3, "there are three replicas")
    images = {one["Config"]["Image"] for one in containers}
    require(images == {f"gene-registry:{stack.version}"}, f"the images are {images}")
    said = stack.compose("up", "--detach")
    require("Recreate" not in said, said)


def a_roll_back_fails_no_request(stack):
    """To a version that does not have the last migration."""
    added = "INSERT INTO registry.refinery_schema_history VALUES (99, 'later', '', '1')"
    psql = 'PGPASSWORD=$POSTGRES_PASSWORD exec psql -U postgres -c "$0" registry'
    stack.compose("exec", "-T", "postgres", "sh", "-c", psql, added)
    stack.version = stack.version.removesuffix("-next")
    with stack.load() as load:
        run("config/compose/upgrade", cwd=stack.checkout, env=stack.environment())
    load.require_success()
    images = {one["Config"]["Image"] for service in ("api", "maintain") for one in stack.inspect()[service]}
    require(images == {f"gene-registry:{stack.version}"}, f"the images are {images}")
    require("a later release has migrated" in stack.compose("logs", "migrate"), "migrate says what it has found")


def an_alert_tells_of_a_replica_that_has_ended(stack):
    """Case 78."""
    container = stack.ids("api")[0]
    docker("stop", container)
    def fires():
        _, text = get(f"http://127.0.0.1:{PROMETHEUS}/api/v1/alerts")
        return [alert for alert in json.loads(text)["data"]["alerts"]
                if alert["state"] == "firing" and alert["labels"]["alertname"].startswith("GeneRegistryReplica")]
    (alert,) = until("an alert fires", fires, timeout=300)
    require(re.match(r"https://[^/]+/operations\.md#", alert["annotations"]["runbook_url"]), f"its link: {alert}")
    docker("start", container)
    until("no alert fires", lambda: not fires())


def data_outlive_the_stack(stack):
    stack.compose("down")
    require(not stack.ids(), "containers are left")
    stack.compose("up", "--detach", "--wait")
    require("already has genes" in stack.compose("logs", "seed"), "the registry is new")
    until("it serves", stack.serves)


def nothing_is_left_behind(stack, volumes):
    """Case 80."""
    stack.compose("down")
    left = set(docker("volume", "ls", "--quiet").split()) - volumes
    named = {f"{PROJECT}_{name}" for name in ("files", "postgres", "prometheus", "grafana")}
    require(left <= named, f"volumes are left: {left - named}")
    label = f"label=com.docker.compose.project={PROJECT}"
    for kind in ("container", "network"):
        options = ["--all"] if kind == "container" else []
        require(not docker(kind, "ls", *options, "--quiet", "--filter", label), f"a {kind} is left")


CHECKS = [
    starts, the_start_can_be_waited_for, the_readmes_request_works, a_second_start_recreates_nothing, users_log_in, limits_are_exact,
    prometheus_sees_the_replicas, the_canary_finds_nothing, containers_are_confined, no_log_has_the_key, a_killed_replica_fails_no_request,
    stores_may_stop, a_failed_upgrade_leaves_the_replicas, an_upgrade_fails_no_request, a_roll_back_fails_no_request,
    an_alert_tells_of_a_replica_that_has_ended, data_outlive_the_stack,
]


def main():
    checkout, *left_out = sys.argv[1:]
    stack = Stack(pathlib.Path(checkout).resolve(), left_out)
    volumes, failed = set(docker("volume", "ls", "--quiet").split()), []
    checks = [(check.__name__, lambda check=check: check(stack)) for check in CHECKS]
    checks.append(("nothing_is_left_behind", lambda: nothing_is_left_behind(stack, volumes)))
    try:
        for name, check in checks:
            begun = time.monotonic()
            try:
                check()
                result = "passed"
            except (Failed, OSError) as error:
                failed.append(name)
                result = f"FAILED: {error}"
            print(f"{name}: {result} ({time.monotonic() - begun:.0f} s)", flush=True)
            if failed == ["starts"]:
                print(stack.compose("ps", "--all", check=False), stack.compose("logs", "--tail", "20", check=False))
                break
    finally:
        stack.profiles = "control,canary,left-out"
        stack.compose("down", "--volumes", "--remove-orphans", check=False)
        for version in (f"test-{os.getpid()}", f"test-{os.getpid()}-next"):
            docker("rmi", "--force", f"gene-registry:{version}", check=False)
        with contextlib.suppress(FileNotFoundError):
            stack.override.unlink()
    print(f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

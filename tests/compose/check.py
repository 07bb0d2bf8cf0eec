"""Checks docker-compose.yml: check.py BINARY. The program must accept the commands and variables of the
services of its image, the control listener must require a login, and numbers and versions must agree. The
schema of the file is checked elsewhere."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import yaml

LOGIN = '[{user="me",sha256="' + "0" * 64 + '"}]'


def interpolated(text, variables):
    """The text after compose's interpolation: ${NAME:-default}, and $$ for a dollar sign."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1]) or found[2], text).replace("$$", "$")


def refused(binary, arguments, service, variables):
    environment = {key: interpolated(str(value), variables) for key, value in service.get("environment", {}).items()}
    done = subprocess.run([binary, *arguments], env={"PATH": os.environ["PATH"], **environment},
                          capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.strip() if done.returncode else ""


def faults(services, binary):
    ours = {name: service for name, service in services.items() if service["image"].startswith("gene-registry")}
    if set(ours) != {"api", "canary", "control", "files", "maintain", "migrate", "seed"}:
        yield f"services of this image are {sorted(ours)}"
    yield from image_faults(services, ours)
    yield from number_faults(services)
    for name, service in ours.items():
        if name == "files":
            continue
        # The canary needs no stores, which a configuration must name.
        checks = [service["command"] + ["--help"]] + [["config", "check"]] * (name != "canary")
        for arguments in checks:
            if fault := refused(binary, arguments, service, {"CONTROL_TOKENS": LOGIN}):
                yield f"{name}: {fault}"
    if "nobody could log in" not in refused(binary, ["config", "check"], services["control"], {}):
        yield "control: starts although nobody can log in"
    yield from redis_faults(services)
    for name, service in services.items():
        if "max-size" not in service.get("logging", {}).get("options", {}):
            yield f"{name}: its log may fill the disk"
    if [port for port in services["control"]["ports"] if not port.startswith("127.0.0.1:")]:
        yield "control: is published beyond 127.0.0.1 without TLS"


def image_faults(services, ours):
    """If several services built one tag, it would stand for several images, and `up` would recreate them."""
    if [name for name, service in services.items() if "build" in service] != ["migrate"]:
        yield "build: not in migrate only"
    version = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["package"]["version"]
    if tags := {service["image"] for service in ours.values()} - {f"gene-registry:${{VERSION:-{version}}}"}:
        yield f"this version is {version}, not that of {tags}"
    for name, service in services.items():
        if not re.search(r":.*\d", service["image"]):
            yield f"{name}: the tag of {service['image']} is not exact"


def number_faults(services):
    replicas = services["api"]["deploy"]["replicas"]
    if int(services["api"]["environment"]["GENE_REGISTRY__RATE_LIMIT__REPLICAS"]) != replicas + 1:
        yield "api: GENE_REGISTRY__RATE_LIMIT__REPLICAS is not one more than its replicas"
    alert = yaml.safe_load(pathlib.Path("config/prometheus/replicas.yml").read_text())["groups"][0]["rules"][0]
    if not alert["expr"].endswith(f"< {replicas}"):
        yield f"config/prometheus/replicas.yml does not expect {replicas} replicas"


def redis_faults(services):
    """Redis must require the password that the replicas have, and its probe must not fail for it."""
    variables = {"REDIS_PASSWORD": "chosen"}
    redis, url = services["redis"], services["api"]["environment"]["REDIS_URL"]
    options = [interpolated(word, variables) for word in redis["command"]]
    if "--requirepass" not in options or options[options.index("--requirepass") + 1] != "chosen":
        yield "redis: anybody who reaches it can write to it"
    if interpolated(url, variables) != "redis://:chosen@redis:6379/":
        yield "api: REDIS_URL lacks the password of redis"
    if interpolated(redis["environment"]["REDISCLI_AUTH"], variables) != "chosen":
        yield "redis: its probe has another password"


def main():
    with open("docker-compose.yml", encoding="utf-8") as file:
        text = file.read()
    services = yaml.safe_load(text)["services"]
    found = list(faults(services, sys.argv[1]))
    for old, new in (("__DRAIN_MS", "__DRAIN"), ("--every", "--each"), ('"serve"', '"server"'), ("127.0.0.1:8081", "8081"),
                     ("max-size", "max-buffer-size"), ("--requirepass", "--maxclients"),
                     ("redis://:${REDIS_PASSWORD:-redis}@", "redis://"),
                     ("REDISCLI_AUTH: ${REDIS_PASSWORD:-redis}", "REDISCLI_AUTH: redis"),
                     ("  seed:\n", "  seed:\n    build: .\n"), ("VERSION:-1", "VERSION:-0"), ("replicas: 3", "replicas: 5"),
                     ('REPLICAS: "4"', 'REPLICAS: "3"'), ("redis:7.4-bookworm", "redis:bookworm"),
                     ("CONTROL__TOKENS", "CONTROL__TOKEN"), ("${CONTROL_TOKENS:-[]}", LOGIN.replace('"', '\\"'))):
        if old not in text or not list(faults(yaml.safe_load(text.replace(old, new))["services"], sys.argv[1])):
            found.append(f"not found: {old!r} → {new!r}")
    print(*found or ["no fault; every break is found"], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

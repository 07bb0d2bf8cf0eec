"""The rendered manifests, and the service's own reading of their configuration."""

import os
import pathlib
import re
import subprocess
import tempfile
import tomllib

import yaml

MEBIBYTE = 1024 * 1024
# Stand-ins for the values of Secrets, by their keys.
SECRETS = {
    "DATABASE_URL": "postgres://user:password@postgres:5432/registry",
    "USAGE_DATABASE_URL": "postgres://usage:password@postgres:5432/registry",
    "REDIS_URL": "redis://redis:6379/",
    "REDIS_PASSWORD": "password",
}


def size(quantity):
    """A quantity such as 64Mi, in bytes."""
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)?", str(quantity)).groups()
    return int(number) * {None: 1, "Ki": 1024, "Mi": MEBIBYTE, "Gi": 1024 * MEBIBYTE}[unit]


def named_port(container, name):
    """The number of the container's port with this name; None if there is none."""
    return next((p["containerPort"] for p in container.get("ports", []) if p["name"] == name), None)


def selects(selector, labels):
    """Whether a selector is not empty and matches the labels."""
    equal = selector.get("matchLabels", {})
    among = selector.get("matchExpressions", [])
    if any(expression["operator"] != "In" for expression in among):
        raise ValueError("only the operator In is supported here")
    return bool(equal or among) and all(labels.get(k) == v for k, v in equal.items()) and all(
        labels.get(expression["key"]) in expression["values"] for expression in among
    )


class Workload:
    """An object with a pod template of one container."""

    def __init__(self, item):
        self.kind, self.name, self.spec = item["kind"], item["metadata"]["name"], item["spec"]
        self.labels = self.spec["template"]["metadata"]["labels"]
        self.pod = self.spec["template"]["spec"]
        (self.container,) = self.pod["containers"]


class Cluster:
    """All objects of one rendered overlay."""

    def __init__(self, text, binary):
        self.objects = [item for item in yaml.safe_load_all(text) if item]
        self.binary = binary
        self.workloads = [Workload(item) for item in self.objects if "template" in item.get("spec", {})]
        self.api = next(w for w in self.workloads if w.labels["app.kubernetes.io/component"] == "api")
        self.version = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["package"]["version"]
        self.folder, self.secrets = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
        for key, value in SECRETS.items():
            pathlib.Path(self.secrets.name, key).write_text(value)
        self.settings = None

    def of(self, kind):
        return [item for item in self.objects if item["kind"] == kind]

    def named(self, kind, name):
        return next((item for item in self.of(kind) if item["metadata"]["name"] == name), None)

    def strings(self):
        """Every string in the objects."""
        waiting = list(self.objects)
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, (dict, list)):
                waiting.extend(value.values() if isinstance(value, dict) else value)

    def config_arguments(self, workload):
        """Arguments that name the workload's configuration file, written as it will be mounted."""
        args = workload.container.get("args", [])
        if "--config" not in args:
            return []
        path = pathlib.PurePosixPath(args[args.index("--config") + 1])
        (mount,) = [m for m in workload.container["volumeMounts"] if m["mountPath"] == str(path.parent)]
        (volume,) = [v for v in workload.pod["volumes"] if v["name"] == mount["name"]]
        held = self.named("ConfigMap", volume["configMap"]["name"])
        if held is None or path.name not in held["data"]:
            raise LookupError(f"{workload.name}: no ConfigMap {volume['configMap']['name']} with {path.name}")
        file = pathlib.Path(self.folder.name, path.name)
        file.write_text(held["data"][path.name])
        return ["--config", str(file)]

    def mounted(self, workload, path):
        """A path below a mounted Secret, as a path on this machine; other paths as they are."""
        for mount in workload.container.get("volumeMounts", []):
            (volume,) = [v for v in workload.pod["volumes"] if v["name"] == mount["name"]]
            if "secret" in volume and path.startswith(mount["mountPath"] + "/"):
                return path.replace(mount["mountPath"], self.secrets.name, 1)
        return path

    def run(self, arguments, workload=None):
        """Runs the service's program as the workload would."""
        environment = {"PATH": os.environ["PATH"]}
        for variable in workload.container.get("env", []) if workload else []:
            environment[variable["name"]] = self.mounted(workload, variable["value"])
        return subprocess.run(
            [self.binary, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def refused(self, arguments, workload=None):
        """The program's error for these arguments; empty if it accepts them."""
        done = self.run(arguments, workload)
        return done.stderr.strip() or f"exit status {done.returncode}" if done.returncode else ""

    def setting(self, key):
        """An effective setting of the replicas."""
        if self.settings is None:
            printed = self.run(["config", "print", *self.config_arguments(self.api)], self.api)
            lines = (line.split("  # ")[0].partition(" = ") for line in printed.stdout.splitlines())
            self.settings = {name: value.strip('"') for name, _, value in lines}
        return self.settings[key]

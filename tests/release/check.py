"""Checks the bill of materials of a release by the CycloneDX schema and by cargo: check.py BOM PROGRAM
TARGET. Then breaks copies of it; each break must be found."""

import hashlib
import json
import pathlib
import subprocess
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def expected_packages(target):
    """The packages that cargo builds the program from, and those that it links."""
    def tree(edges):
        command = ["cargo", "tree", "--locked", "-p", "gene-registry", "-e", edges, "--target", target,
                   "--prefix", "none", "--format", "{p}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {" ".join(line.split()[:2]).replace(" v", " ") for line in printed.splitlines() if line}
    built = tree("normal,build")
    return built - not_compiled(built), tree("normal,no-proc-macro")


def not_compiled(built):
    """Those that only packages without a build script name as build dependencies: cargo compiles none."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {one["id"]: one for one in metadata["packages"]}
    name = {key: f"{one['name']} {one['version']}" for key, one in packages.items()}
    uses = {}
    for node in metadata["resolve"]["nodes"]:
        has_script = any("custom-build" in one["kind"] for one in packages[node["id"]]["targets"])
        compiled = {None, "build"} if has_script else {None}
        for needed in node["deps"]:
            if compiled & {one["kind"] for one in needed["dep_kinds"]}:
                uses.setdefault(name[node["id"]], set()).add(name[needed["pkg"]])
    reached, waiting = set(), [one for one in built if one.startswith("gene-registry ")]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += uses.get(one, ())
    return built - reached


def invalid(listed):
    """Schema errors. Takes seconds for hundreds of components."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(listed))
    return [f"not valid: {str(error)[:200]}"] if error else []


def faults(listed, digest, built, linked):
    whole = listed["metadata"]["component"]
    parts = listed["components"]
    names = [f"{part['name']} {part['version']}" for part in [whole, *parts]]
    if built != set(names):
        yield f"missing {sorted(built - set(names))}, superfluous {sorted(set(names) - built)}"
    if len(names) != len(set(names)):
        yield "duplicate"
    required = {f"{part['name']} {part['version']}" for part in parts if part["scope"] == "required"}
    if required != linked - {f"{whole['name']} {whole['version']}"}:
        yield f"wrong scope: {sorted(required ^ linked)}"
    if unlicensed := [part["name"] for part in [whole, *parts] if "licenses" not in part]:
        yield f"no licence: {unlicensed}"
    if whole["hashes"][0]["content"] != digest:
        yield "the hash is not that of the program"
    references = {part["bom-ref"] for part in [whole, *parts]}
    known = {entry["ref"] for entry in listed["dependencies"]}
    needed = {reference for entry in listed["dependencies"] for reference in entry["dependsOn"]}
    if known != references or needed != references - {whole["bom-ref"]}:
        yield f"dependencies and components differ: {sorted((known ^ references) | (needed ^ references))[:5]}"


def breaks(listed):
    """The expected error and a broken copy, for each kind of break."""
    def copy():
        return json.loads(json.dumps(listed))
    broken = copy()
    del broken["components"][7]
    yield "missing", broken
    broken = copy()
    broken["components"].append(broken["components"][3] | {"name": "criterion", "bom-ref": "x"})
    yield "superfluous ['criterion", broken
    broken = copy()
    broken["components"].append(broken["components"][3] | {"bom-ref": "x"})
    yield "duplicate", broken
    broken = copy()
    broken["components"][0]["scope"] = "excluded"
    yield "wrong scope", broken
    broken = copy()
    del broken["components"][0]["licenses"]
    yield "no licence", broken
    broken = copy()
    broken["metadata"]["component"]["hashes"][0]["content"] = "0" * 64
    yield "the hash is not that of the program", broken
    broken = copy()
    broken["dependencies"].pop()
    yield "dependencies and components differ", broken


def main():
    listed = json.loads(pathlib.Path(sys.argv[1]).read_text())
    digest = hashlib.sha256(pathlib.Path(sys.argv[2]).read_bytes()).hexdigest()
    packages = expected_packages(sys.argv[3])
    found = [*invalid(listed), *faults(listed, digest, *packages)]
    for expected, broken in breaks(listed):
        noticed = list(faults(broken, digest, *packages))
        if not any(expected in fault for fault in noticed):
            found.append(f"not found: {expected!r}; found {noticed}")
    if not invalid(listed | {"components": [listed["components"][0] | {"scope": "sometimes"}]}):
        found.append("not found: an invalid scope")
    print(*found or [f"{len(listed['components'])} components, as cargo reports; every break is found"], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

"""Prints the CycloneDX list of what a build of gene-registry is made of.

    sbom.py MESSAGES PROGRAM TARGET

MESSAGES is what `cargo build --message-format json` said: the packages listed are exactly those that
it compiled, or found compiled. `cargo metadata`, which tools usually take, is no such list: it has
features, and so packages, that only tests ask for. What is known of each package is taken from
there, and the hashes of their archives from Cargo.lock. SOURCE_DATE_EPOCH is the list's time.
"""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = "gene-registry"


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, capture_output=True, text=True).stdout


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}".replace("+", "%2B")


def built(messages):
    """Identifiers of the packages of which something was compiled, and the features of the program."""
    packages, features = set(), []
    for line in messages.read_text().splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact":
            packages.add(message["package_id"])
            if message["target"]["name"] == ROOT and "bin" in message["target"]["kind"]:
                features = message["features"]
    return packages, features


def linked(target):
    """Names and versions of what ends up in the program; the rest only helps to build it."""
    tree = cargo("tree", "--locked", "-p", ROOT, "-e", "normal,no-proc-macro", "--target", target,
                 "--prefix", "none", "--format", "{p}")
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line}


def checksums():
    lock = tomllib.loads(pathlib.Path("Cargo.lock").read_text())
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def component(package, checksum, in_program):
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if in_program else "excluded",
        "purl": purl(package),
        "hashes": [{"alg": "SHA-256", "content": checksum}],
    }
    if package["description"]:
        made["description"] = " ".join(package["description"].split())
    if package["license"]:
        # The form from before licences were SPDX expressions.
        made["licenses"] = [{"expression": " OR ".join(part.strip() for part in package["license"].split("/"))}]
    if (package["repository"] or "").startswith("https://"):
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def dependencies(nodes, packages):
    """Who needs whom, between packages that were built."""
    for node in sorted(nodes, key=lambda node: purl(packages[node["id"]]) if node["id"] in packages else ""):
        if node["id"] in packages:
            needed = {
                purl(packages[dep["pkg"]]) for dep in node["deps"]
                if dep["pkg"] in packages and any(kind["kind"] != "dev" for kind in dep["dep_kinds"])
            }
            yield {"ref": purl(packages[node["id"]]), "dependsOn": sorted(needed)}


def main():
    messages, program, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    ids, features = built(messages)
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {package["id"]: package for package in metadata["packages"] if package["id"] in ids}
    (root,) = (package for package in packages.values() if package["name"] == ROOT)
    sums, in_program = checksums(), linked(target)
    components = [
        component(p, sums[p["name"], p["version"]], (p["name"], f"v{p['version']}") in in_program)
        for p in sorted(packages.values(), key=purl) if p is not root
    ]
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    rustc = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": purl(root),
                "name": ROOT,
                "version": root["version"],
                "description": root["description"],
                "licenses": [{"expression": root["license"]}],
                "purl": purl(root),
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(program.read_bytes()).hexdigest()}],
                "properties": [
                    {"name": "cargo:target", "value": target},
                    {"name": "cargo:features", "value": " ".join(features)},
                    {"name": "rustc", "value": rustc},
                ],
            },
        },
        "components": components,
        "dependencies": list(dependencies(metadata["resolve"]["nodes"], packages)),
    }
    # The same build gives the same list.
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()

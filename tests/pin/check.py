"""Checks config/pin: check.py KUBECTL."""

import hashlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def send(method, url, body=b"", kind="application/octet-stream"):
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.headers


def push(registry, repository, tag, author="first"):
    """Stores an image without layers; returns its digest."""
    config = json.dumps({"author": author, "comment": f"{repository}:{tag}"}).encode()
    name = f"sha256:{hashlib.sha256(config).hexdigest()}"
    upload = send("POST", f"{registry}/v2/{repository}/blobs/uploads/")["Location"]
    send("PUT", f"{upload}{'&' if '?' in upload else '?'}digest={name}", config)
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "layers": [],
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": name, "size": len(config)}}
    text = json.dumps(manifest).encode()
    send("PUT", f"{registry}/v2/{repository}/manifests/{tag}", text, kind)
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def pin(*files):
    return subprocess.run(["config/pin", *map(str, files)], capture_output=True, text=True, check=False)


def check(kubectl, folder, host):
    registry = f"http://{host}"
    compose, overlay = folder / "docker-compose.yml", folder / "kubernetes/example/kustomization.yaml"
    text = pathlib.Path("docker-compose.yml").read_text()
    text = re.sub(r"^(    image: )", rf"\g<1>{host}/", text, flags=re.M)
    names = set(re.findall(rf"^    image: {host}/(\S+):(\S+)$", text, re.M))
    assert len(names) >= 5, names
    digests = {f"{name}:{tag}": push(registry, name, tag) for name, tag in names}
    compose.write_text(text)

    done = pin(compose)
    assert done.returncode == 0, done.stderr
    pinned = compose.read_text()
    for name, digest in digests.items():
        assert f"    image: {host}/{name}@{digest}\n" in pinned, name
    # What is built here has no digest.
    assert re.sub(r"@sha256:\w+", "", pinned) == text
    assert "image: gene-registry:${VERSION" in pinned

    # A tag that has moved gets its new digest; one that has not stays.
    (name, tag), *_ = sorted(names)
    moved = push(registry, name, tag, author="second")
    assert moved != digests[f"{name}:{tag}"]
    assert pin(compose).returncode == 0
    assert f"{host}/{name}:{tag}@{moved}\n" in compose.read_text()

    shutil.copytree("config/kubernetes", folder / "kubernetes", dirs_exist_ok=True)
    own = push(registry, "gene-registry", "1.0.0")
    overlay.write_text(overlay.read_text().replace("registry.example/", f"{host}/"))
    for _ in range(2):
        done = pin(overlay)
        assert done.returncode == 0, done.stderr
        assert overlay.read_text().count("digest:") == 1
    rendered = subprocess.run([kubectl, "kustomize", overlay.parent], capture_output=True, text=True, check=True).stdout
    images = set(re.findall(r"image: (\S+)", rendered))
    assert images and all(image.startswith(f"{host}/gene-registry") and image.endswith(f"@{own}") for image in images), images

    # One image that is not in the registry: nothing is written.
    before = overlay.read_text()
    compose.write_text(text.replace(f"{host}/{name}:{tag}", f"{host}/{name}:unknown"))
    unknown = compose.read_text()
    done = pin(overlay, compose)
    assert done.returncode == 1 and "status 404" in done.stderr and f"{name}:unknown" in done.stderr, done
    assert (overlay.read_text(), compose.read_text()) == (before, unknown)
    # A form that it does not know is reported.
    compose.write_text(text.replace(f"image: {host}/{name}:{tag}", f'image: "{host}/{name}:{tag}"'))
    done = pin(compose)
    assert done.returncode == 1 and f"{name}:{tag}" in done.stderr, done
    compose.write_text(text.replace(host, "127.0.0.1:1"))
    done = pin(compose)
    assert done.returncode == 1 and "refused" in done.stderr, done


def main():
    with tempfile.TemporaryDirectory() as path:
        folder, host = pathlib.Path(path), f"127.0.0.1:{free_port()}"
        settings = {"version": 0.1, "log": {"level": "error"}, "http": {"addr": host},
                    "storage": {"filesystem": {"rootdirectory": f"{path}/images"}, "delete": {"enabled": True}}}
        (folder / "registry.yml").write_text(json.dumps(settings))
        with open(folder / "log", "wb") as log:
            registry = subprocess.Popen(["docker-registry", "serve", folder / "registry.yml"], stdout=log, stderr=log)
        try:
            for _ in range(1200):
                assert registry.poll() is None, (folder / "log").read_text()
                with socket.socket() as probe:
                    if probe.connect_ex(tuple([host.split(":")[0], int(host.split(":")[1])])) == 0:
                        break
                time.sleep(0.05)
            check(sys.argv[1], folder, host)
        finally:
            registry.kill()
            registry.wait()
    print("config/pin writes the digests of the registry, and no others")


if __name__ == "__main__":
    main()

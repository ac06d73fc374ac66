"""The images of docs/deploy/Containerfile: built with Podman from a base that mmdebstrap makes of Debian's packages,
and run with the commands and health checks of compose.yaml beside a real PostgreSQL and Valkey."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from dashboard.up.parent_death import tethered
from dashboard.up.valkey import server_program
from tests.servers import PostgreSQL, free_port, short_folder, start_postgresql
from tests.up_process import ROOT, wait_until
from tests.workers.containers.podman_machine import Machine
from workers.containers.arguments import podman, rlimit_words

DEPLOY = ROOT / "docs" / "deploy"
BASE = "localhost/debian:bookworm-slim"
# As Debian's slim image is made.
UNUSED = ("doc", "man", "locale", "info", "lintian")
USER = 10001
PACKED_BYTES = 250_000_000
MISSING = [name for name in ("podman", "mmdebstrap") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"Debian's {' and '.join(MISSING)} are not on this machine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="images are made as root here"),
    pytest.mark.timeout(2400),
]


class Images:
    """Both images, in a storage of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.machine = folder, Machine(folder)
        if self.machine.runtime.problem:
            pytest.skip(f"Podman runs no container here: {self.machine.runtime.problem}")
        self._base()
        self._context()
        for target in ("server", "node"):
            self._build(target)

    def call(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(podman(self.machine.runtime, *words), env=self.machine.environment, capture_output=True,
                              text=True, timeout=1800, check=False)  # fmt: skip
        assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done

    def run(self, image: str, *words: str) -> str:
        """Return what a container says that is locked down as in compose.yaml."""
        return self.call("run", "--rm", *LOCKED, *rlimit_words(), "--network", "host", image, *words).stdout

    def _base(self) -> None:
        less = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNUSED]
        words = ["mmdebstrap", "--quiet", "--variant=minbase", *less]
        words += ['--customize-hook=rm -rf "$1"/var/lib/apt/lists/*', "bookworm", str(self.folder / "base.tar")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        self.call("import", str(self.folder / "base.tar"), BASE)

    def _context(self) -> None:
        """What `make release` makes, and the files that the build copies."""
        self.context = self.folder / "context"
        for name in ("docs/deploy", "requirements"):
            shutil.copytree(ROOT / name, self.context / name)
        code = f"from setuptools import build_meta; build_meta.build_wheel({str(self.context / 'dist')!r})"
        (self.context / "dist").mkdir()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=300)

    def _build(self, target: str) -> None:
        words = ["build", "--format", "docker", "--network", "host", *rlimit_words(), *self._certificates()]
        words += ["--build-arg", f"BASE={BASE}", "--target", target, "--tag", f"localhost/trainyard-{target}:0.1.0"]
        self.call(*words, "--file", str(DEPLOY / "Containerfile"), str(self.context))

    def _certificates(self) -> list[str]:
        """Authorities that pip trusts on this machine, for where a proxy shows a certificate of its own."""
        file = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
        if not file:
            return []
        (self.folder / "pip.conf").write_text("[global]\ncert = /run/authorities.pem\n")
        return ["--volume", f"{file}:/run/authorities.pem:ro", "--volume", f"{self.folder}/pip.conf:/etc/pip.conf:ro"]


LOCKED = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges",
          "--log-driver", "k8s-file"]  # fmt: skip


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    with short_folder("ty-images-") as folder:
        folder.chmod(0o755)
        one: Images | None = None
        try:
            yield (one := Images(folder))
        finally:
            if one is not None:  # else the build failed, which is what is to be read
                one.call("system", "reset", "--force", check=False)


@pytest.mark.parametrize("name", ["server", "node"])
def test_an_image_is_small_runs_as_nobody_and_says_what_is_in_it(images: Images, name: str, tmp_path: Path) -> None:
    image = f"localhost/trainyard-{name}:0.1.0"
    [facts] = json.loads(images.call("image", "inspect", image).stdout)
    assert facts["Config"]["User"] == f"{USER}:{USER}"
    images.call("push", "--compress", image, f"dir:{tmp_path}")
    packed = sum(file.stat().st_size for file in tmp_path.iterdir())
    print(f"{name}: {packed / 1e6:.0f} MB packed, {facts['Size'] / 1e6:.0f} MB on the disk")
    assert packed < PACKED_BYTES, f"{packed / 1e6:.0f} MB"
    shell = ["run", "--rm", *LOCKED, *rlimit_words(), "--network", "none", "--entrypoint", "sh", image, "-c"]
    assert images.call(*shell, "id -u").stdout.strip() == str(USER)
    tools = "for one in pip pip3 gcc strip; do command -v $one; done; python -c 'import torch' 2>&1 | tail -1"
    assert images.call(*shell, tools).stdout.strip() == "ModuleNotFoundError: No module named 'torch'"
    images.call(*shell, "python -c 'import aiohttp, cryptography, numpy, PIL.Image, tokenizers, re2, safetensors'")
    materials = json.loads(images.call(*shell, "cat /opt/trainyard/sbom.cdx.json").stdout)
    known = {one["name"].lower(): one["version"] for one in materials["components"]}
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements/runtime.lock").read_text(), re.MULTILINE))
    assert materials["bomFormat"] == "CycloneDX" and known["trainyard"] == "0.1.0"
    assert known["celery"] == locked["celery"] and known["cryptography"] == locked["cryptography"]
    assert ("django" in known) == (name == "server")


def test_a_node_image_starts_the_node(images: Images) -> None:
    assert "--join" in images.run("localhost/trainyard-node:0.1.0", "node", "--help")


class Composed:
    """The services migrate, web, control and ingest of compose.yaml, as containers on the network of this machine."""

    def __init__(self, images: Images, database: PostgreSQL) -> None:
        self._images, self._folder = images, images.folder / "composed"
        self.services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        self.port, self._valkey_port = free_port(), free_port()
        for name in ("home", "secrets", "valkey"):
            (self._folder / name).mkdir(parents=True)
        address = f"redis://:hidden@127.0.0.1:{self._valkey_port}/0"
        secrets = {"database_url": database.url, "redis_url": address, "secret_key": "k" * 50}
        for name, text in secrets.items():
            (self._folder / "secrets" / name).write_text(f"{text}\n")
        for path in (self._folder / "home", *(self._folder / "secrets").iterdir()):
            os.chown(path, USER, USER)
            path.chmod(0o700 if path.is_dir() else 0o400)
        words = ["--port", str(self._valkey_port), "--bind", "127.0.0.1", "--requirepass", "hidden", "--save", ""]
        command = tethered([server_program(), *words, "--dir", str(self._folder / "valkey")])
        self.valkey = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def start(self, name: str, *words: str) -> str:
        service = self.services[name]
        given = {**service["environment"], "PUBLIC_URL": f"http://localhost:{self.port}", "PORT": str(self.port)}
        given |= {"HOST": "127.0.0.1", "FORWARDED_ALLOW_IPS": ""}
        variables = [word for key, value in given.items() for word in ("--env", f"{key}={value}")]
        volumes = ["--volume", f"{self._folder}/home:/var/lib/trainyard"]
        for secret in service["secrets"]:
            volumes += ["--volume", f"{self._folder}/secrets/{secret}:/run/secrets/{secret}:ro"]
        own = [*LOCKED, *rlimit_words(), "--network", "host", "--name", name, *volumes, *variables]
        return self._images.call("run", *words, *own, "localhost/trainyard-server:0.1.0", *service["command"]).stdout

    def is_healthy(self, name: str) -> bool:
        test = self.services[name]["healthcheck"]["test"]
        assert test[0] == "CMD"
        return self._images.call("exec", name, *test[1:], check=False).returncode == 0

    def health(self) -> int:
        return httpx.get(f"http://127.0.0.1:{self.port}/api/v1/health", timeout=30).status_code

    def stop(self) -> None:
        for name in ("web", "control", "ingest"):
            print(self._images.call("logs", name, check=False).stderr[-1000:])
            self._images.call("rm", "--force", "--time", "20", name, check=False)
        self.valkey.terminate()
        self.valkey.wait(timeout=30)


@pytest.fixture
def composed(images: Images) -> Iterator[Composed]:
    (images.folder / "postgresql").mkdir()
    database = start_postgresql(images.folder / "postgresql")
    if database is None:
        pytest.skip("PostgreSQL's server is not on this machine (Debian: apt-get install postgresql)")
    one = Composed(images, database)
    try:
        yield one
    finally:
        one.stop()
        database.stop()


def test_the_services_of_compose_serve_from_read_only_containers(composed: Composed) -> None:
    assert "may sign in" in composed.start("migrate", "--rm")
    composed.start("web", "--detach")
    wait_until(lambda: composed.is_healthy("web"), "web is healthy")
    assert composed.health() == 503, "control and ingest are away, which makes web no worse"
    for name in ("control", "ingest"):
        composed.start(name, "--detach")
    for name in ("control", "ingest"):
        wait_until(lambda name=name: composed.is_healthy(name), f"{name} is healthy")
    wait_until(lambda: composed.health() == 200, "the server is ready")

"""A home with certificates: a node joins over TLS, trains, and comes back by itself after a rotation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from dashboard.up.parent_death import tethered
from tests.servers import short_folder
from tests.up_process import ROOT, Up, new_home, wait_until
from tests.whole.runs import Yard, example


def tls(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRAINYARD_HOME": str(home)}
    command = [sys.executable, "-m", "dashboard.tls", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


@contextmanager
def node_of(up: Up, folder: Path, secret: str) -> Iterator[subprocess.Popen[bytes]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINYARD_", "DJANGO_", "SSL_"))}
    environment = {**kept, "TRAINYARD_JOIN": secret, "TRAINYARD_MEMORY": str(folder)}
    words = ["--name", "far", "--home", str(folder / "far"), "--server", up.url, "--slots", "1", "--tls"]
    command = tethered([sys.executable, "-m", "workers.node", *words])
    with (folder / "far.log").open("wb") as output:
        node = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output)
        try:
            yield node
        finally:
            node.terminate()
            node.wait(30)


@pytest.mark.whole
@pytest.mark.extended
def test_a_node_trains_over_tls_and_comes_back_after_a_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_folder("ty-tls-") as folder:
        home = new_home(folder)
        home.mkdir(mode=0o700, exist_ok=True)
        made = tls(home, "init")
        assert made.returncode == 0, made.stderr
        up = Up(home, VALKEY_TLS_PORT="0")
        try:
            up.wait_until_ready()
            monkeypatch.setenv("SSL_CERT_FILE", str(home / "tls" / "ca.pem"))  # for the test itself
            assert up.url.startswith("https://")
            with Yard(up) as yard:
                secret = yard.post("/clusters/local/join-tokens", {})["token"]
                with node_of(up, folder, secret):
                    wait_for_node(yard)
                    stored = (folder / "far" / "nodes" / "far" / "node.toml").read_text()
                    assert 'redis_url = "rediss://trainyard-node-' in stored
                    train(yard)
                    rotated = tls(home, "rotate")
                    assert rotated.returncode == 0, rotated.stderr
                    psutil.Process(up.processes()["valkey-tls"]).kill()
                    before = yard.get("/nodes")["items"][0]["seen_at"]
                    wait_until(lambda: yard.get("/nodes")["items"][0]["seen_at"] > before, "the node is back")
                    wait_for_node(yard)
                    train(yard)
        finally:
            up.close()


def wait_for_node(yard: Yard) -> None:
    wait_until(
        lambda: any(one["name"] == "far" and one["is_in_contact"] for one in yard.get("/nodes")["items"]),
        "the node is in contact",
    )


def train(yard: Yard) -> None:
    spec = example("tiny-steps", steps=10, validate_every_steps=10, warmup_steps=1)
    spec["resources"]["nodes"] = 1
    run = yard.wait_for_end(yard.submit(spec))
    assert run["status"] == "SUCCEEDED", run["reason"]

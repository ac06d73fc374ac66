"""A rank gets its secrets from the server by way of its node; what it prints of them is masked before it is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode
from tests.workers.web import Site, serve_site
from trainyard.contract.base import JsonObject
from trainyard.contract.calls import GivenSecret, GivenSecrets, secrets_scope
from trainyard.contract.locks import lock

TOKEN, KEY = "hf_abcdefghij0123456789", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\n-----END KEY-----"
SCRIPT = """
import hashlib, os, subprocess, sys, time
value = os.environ["TOKEN"]
os.write(1, b"begin " + value[:9].encode()); time.sleep(0.3); os.write(1, value[9:].encode() + b" end\\n")
subprocess.run([sys.executable, "-c", "import os; print('child', os.environ['TOKEN'])"])
print(hashlib.sha256(open(os.environ["KEY_FILE"]).read().encode()).hexdigest(), flush=True)
raise ValueError("refused: " + value)
"""
SECRETS = ["TOKEN=HUB", "KEY_FILE=file:mine:KEY"]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as one:
        yield one


@pytest.fixture(scope="module")
def node(site: Site, own_valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        one = ControlledNode(folder, own_valkey.url, name="secretive", server=site.url, python=python_without_torch)
        site.key = one.key
        one.start()
        yield one
        one.close()


def ordered(node: ControlledNode, **task: str) -> JsonObject:
    return node.order(SCRIPT, spec={"task": {"script": "train.py", "arguments": [], "secrets": SECRETS, **task}})


def given(node: ControlledNode, order: JsonObject) -> JsonObject:
    found = GivenSecrets([GivenSecret("TOKEN", TOKEN), GivenSecret("KEY_FILE", KEY, is_file=True)])
    return {"locked": lock(node.key, secrets_scope(node.id, order["attempt"]), found).locked}


@pytest.mark.parametrize("way", ["warm", "cold"])
def test_a_rank_has_its_secrets_and_its_node_keeps_none(
    node: ControlledNode, site: Site, python_without_torch: Path, way: str
) -> None:
    order = ordered(node, **({"python": str(python_without_torch)} if way == "cold" else {}))
    site.secrets[order["attempt"]] = (200, given(node, order))
    node.launch(order)
    report = node.wait_for(order, "ended")
    node.wait_until_shipped(order)
    assert sorted(node.lines(order)) == sorted(["begin *** end", "child ***", hashlib.sha256(KEY.encode()).hexdigest()])
    assert "ValueError: refused: ***" in "\n".join(node.lines(order, "stderr"))
    assert report["ranks"][0]["error"]["message"] == "refused: ***"
    data = b"".join(path.read_bytes() for path in node.base.rglob("*") if path.is_file() and not path.is_symlink())
    assert TOKEN.encode() not in data and b"MIIEvQIBADANBgkqh" not in data


def test_an_attempt_whose_secret_is_gone_is_refused_by_name(node: ControlledNode, site: Site) -> None:
    order = ordered(node)
    site.secrets[order["attempt"]] = (409, {"detail": "Project default has no secret HUB."})
    node.nudge(order)
    node.say(order)
    report = node.wait_for(order, "refused")
    assert (report["reason"]["code"], report["reason"]["sentence"]) == (
        "secret_missing",
        "Project default has no secret HUB.",
    )

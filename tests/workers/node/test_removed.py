"""A node that its server does not know any more ends, with its ranks, in a way that a service manager can tell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers import Valkey
from tests.workers.control import ControlledNode, until
from tests.workers.web import Site, serve_site
from trainyard.contract.calls import REMOVED_EXIT_CODE
from trainyard.contract.seals import new_key
from workers.node.server_client import ServerClient, ServerClock
from workers.transport.node_config import NodeConfig

WAITS = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


def test_its_ranks_end_and_then_itself_once_its_way_into_valkey_is_gone(
    home: Path, valkey: Valkey, site: Site, python_without_torch: Path
) -> None:
    admin = redis.Redis.from_url(valkey.url)
    admin.execute_command("ACL", "SETUSER", "one", "on", ">word", "~*", "&*", "+@all")
    node = ControlledNode(home, valkey.url.replace("//", "//one:word@"), server=site.url, python=python_without_torch)
    site.key = node.key
    node.start()
    try:
        order = node.order(WAITS)
        node.launch(order)
        node.wait_for(order, "running")
        site.knows_node = False
        admin.execute_command("ACL", "DELUSER", "one")
        assert node.process is not None
        until(lambda: node.process.poll() is not None, about=lambda: node.log()[-3000:])
        assert node.process.returncode == REMOVED_EXIT_CODE
        assert node.folder(order["attempt"]).is_ended()
        last = node.log().strip().splitlines()[-1]
        assert last == (
            f"The server {site.url} does not know the node one any more: it was removed, or another machine has joined "
            "under its name. Start it with a new --join token, or not again."
        )
        node.start()  # as a service manager does that was not told better
        assert node.process.wait(60) == REMOVED_EXIT_CODE
    finally:
        node.close()


def test_only_a_plain_no_counts(site: Site) -> None:
    site.key = new_key()
    client = ServerClient(NodeConfig(site.url, "n1", "one", site.key, "redis://x", "local"))
    assert client.is_known()
    site.failures = 1
    assert client.is_known(), "the server is in trouble itself"
    clock = ServerClock()
    clock.set(time.time() - 4_000)
    behind = ServerClient(NodeConfig(site.url, "n1", "one", site.key, "redis://x", "local"), clock=clock)
    assert behind.is_known(), "401 for a seal that is too old is no word about the node"
    site.knows_node = False
    assert not client.is_known()

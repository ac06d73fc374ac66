from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode
from tests.workers.stream import KEY, ORDER
from workers.supervisor.contact import Contact, connect
from workers.supervisor.shipping import Shipper


@pytest.fixture
def home() -> Iterator[Path]:
    with short_folder("ty-node-") as folder:
        yield folder


@pytest.fixture(scope="module")
def calm_node(valkey_server: Valkey) -> Iterator[ControlledNode]:
    """A node worker that the tests of a module share, since none of them harms it."""
    with short_folder("ty-node-") as folder:
        node = ControlledNode(folder, valkey_server.url, name="calm")
        node.start()
        yield node
        node.close()


@pytest.fixture
def node(home: Path, valkey: Valkey) -> Iterator[ControlledNode]:
    """A node worker of the test's own, to be killed at will."""
    node = ControlledNode(home, valkey.url)
    node.start()
    yield node
    node.close()


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    client = connect(valkey.url)
    yield client
    client.close()


@pytest.fixture
def contact(client: redis.Redis) -> Contact:
    return Contact(client, KEY, ORDER)


@pytest.fixture
def shipper(client: redis.Redis, contact: Contact, tmp_path: Path) -> Shipper:
    return Shipper(client, KEY, ORDER, tmp_path, contact)

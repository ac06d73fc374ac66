from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode


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

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


@pytest.fixture
def node(home: Path, valkey: Valkey) -> Iterator[ControlledNode]:
    """A node worker that runs, with nothing to do."""
    node = ControlledNode(home, valkey.url)
    node.start()
    yield node
    node.close()

"""All that a session started ends with it, also beside a rank whose attempt has namespaces of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.attached import check_that_ending_it_leaves_nothing, check_that_its_command_leaves_nothing
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject

RANK = "import time\nprint('waits', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def node(own_valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        found = ControlledNode(folder, own_valkey.url, name="yard", python=python_without_torch)
        found.start()
        yield found
        found.close()


@pytest.fixture(scope="module")
def live(node: ControlledNode) -> Iterator[JsonObject]:
    order = node.order(RANK)
    node.launch(order)
    until(lambda: node.lines(order) == ["waits"], about=lambda: [node.lines(order, "stderr"), node.report(order)])
    yield order
    node.say(order, wanted="stop", grace_s=0.5)
    node.wait_for(order, "ended")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_session_that_is_ended_leaves_nothing(node: ControlledNode, live: JsonObject, terminal: bool) -> None:
    check_that_ending_it_leaves_nothing(node, live, f"stays-outside-{terminal}", terminal=terminal)


def test_what_a_command_leaves_behind_ends_with_it(node: ControlledNode, live: JsonObject) -> None:
    check_that_its_command_leaves_nothing(node, live, "left-outside")

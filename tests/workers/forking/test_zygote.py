"""What a rank had to import, the next one on its node finds imported."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.servers import Valkey
from tests.workers.conftest import started
from tests.workers.control import ControlledNode
from workers.forking.zygote import LOOK_EVERY_S, LaterImports

USES = "import sys; print('sklearn.datasets' in sys.modules); import sklearn.datasets"
USES_NOT = "import sys; print('sklearn.datasets' in sys.modules)"
PATIENCE_S = 30.0


def finds_it(node: ControlledNode, script: str) -> bool:
    order = node.order(script)
    node.launch(order)
    assert node.wait_for(order, "ended")["reason"] is None
    node.wait_until_shipped(order)
    return node.lines(order) == ["True"]


def test_the_warm_process_imports_what_a_rank_has_used(own_valkey: Valkey) -> None:
    with started("later", own_valkey) as node:
        assert not finds_it(node, USES_NOT)
        time.sleep(3 * LOOK_EVERY_S)
        assert not finds_it(node, USES), "nobody had used it"
        until = time.monotonic() + PATIENCE_S
        while not finds_it(node, USES_NOT):
            assert time.monotonic() < until
            time.sleep(LOOK_EVERY_S)


def test_a_mark_of_another_name_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "imported.antigravity").touch()
    later = LaterImports()
    assert later.pause_s is None, "there is nothing to look at yet"
    later.add(str(tmp_path))
    later.look()
    assert "antigravity" not in sys.modules and later.pause_s == LOOK_EVERY_S

"""The clock of a node jumps by an hour, forwards and back, while it trains. Nobody else's time moves."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.chaos.own_nodes import trainyard_with_own_nodes
from tests.chaos.scene import ROWS, Scene
from tests.chaos.test_lost_nodes import gang

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
HOUR_S = 3600


def test_a_clock_that_jumps_by_an_hour_changes_no_status_and_loses_nothing(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    clock = tmp_path / "clock"
    environment = {"CHAOS_CLOCK": str(clock), "PYTHONPATH": str(Path(__file__).parent / "clock")}
    with trainyard_with_own_nodes() as (up, yard, nodes):
        nodes.start("steady")
        nodes.start("jumping", environment=environment)
        nodes.wait_for_contact("steady", "jumping")
        scene = Scene(up, yard, seed)
        run = scene.submit(steps=6_000, checkpoint={"every_steps": 200}, **gang(2))  # outlasts the jumps
        for seconds in (HOUR_S, -HOUR_S, 0):
            scene.yard.wait_for_step(run, (yard.run(run)["step"] or 0) + scene.choice.randrange(50, 200))
            clock.write_text(str(seconds))
            until = time.monotonic() + 6
            while time.monotonic() < until:
                scene.check_is_true(run)
                assert yard.run(run)["status"] == "RUNNING", "a node's clock decides nothing"
                time.sleep(0.3)
        reports = [report for report in scene.reports(run) if report["ranks"]]
        row = scene.finish("clock of a node jumps by an hour")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert len(reports) == 2 and row.is_clean and row.attempts == 1

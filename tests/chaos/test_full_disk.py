"""The disk under everything is full for a while: spools, checkpoints and the database. Training goes on, and once there
is room nothing has been lost."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.chaos.scene import ROWS, Scene
from tests.disks import disk, fill
from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
FULL_S = 8.0


def test_a_disk_that_is_full_for_a_while_costs_warnings(request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    with short_folder("ty-full-") as folder, disk(folder / "disk", mb=400) as small:
        up = Up(new_home(small), NODES="2")
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                scene = Scene(up, yard, seed)
                run = scene.submit(steps=3_000, checkpoint={"every_steps": 100})
                scene.wait_for_a_step(run, 120, 300)
                filler = fill(small)
                time.sleep(FULL_S)
                filler.unlink()
                scene.check_status(run)
                row = scene.finish("disk of everything is full for 8 s")
                codes = {event["code"] for event in scene.events(run)}
        finally:
            up.close()
    request.config.stash.setdefault(ROWS, []).append(row)
    print(f"  {row} {sorted(codes)}")
    assert row.is_clean and row.attempts == 1, "training did not notice"

"""PostgreSQL is killed while ingest writes, also between a commit and its acknowledgement. It comes back with what it
had committed, and nothing is lost or stored twice."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.chaos.scene import NUM_SEEDS, ROWS, Scene
from tests.servers import short_folder, start_postgresql
from tests.up_process import Up, new_home
from tests.whole.runs import Yard

KILLS = 12 if NUM_SEEDS > 1 else 4

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.postgres, pytest.mark.timeout(600)]


def test_a_database_that_is_killed_again_and_again_loses_and_doubles_nothing(request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    with short_folder("ty-own-") as folder, short_folder("ty-pg-") as of_postgresql:
        database = start_postgresql(of_postgresql, is_durable=True)
        if database is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        up = Up(new_home(folder), NODES="2", DATABASE_URL=database.url)
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                scene = Scene(up, yard, seed)
                run = scene.submit(steps=4_000, checkpoint={"every_steps": 500})
                yard.wait_for_step(run, 30)
                for _ in range(KILLS):
                    time.sleep(scene.choice.random() * 1.5)
                    database.kill()
                    time.sleep(scene.choice.random() * 0.5)
                    database.start_again()
                scene.check_status(run)
                row = scene.finish(f"database is killed {KILLS} times")
        finally:
            up.close()
            database.stop()
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 1, "training did not notice"

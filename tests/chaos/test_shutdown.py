"""SIGTERM to everything: a clean stop in 10 s, nothing left, and the run goes on when all is started again."""

from __future__ import annotations

import os
import random
import time

import psutil
import pytest

from tests.chaos.scene import FIGURES, ROWS, Figure, Scene
from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
CLEAN_S = 10.0


@pytest.mark.parametrize("whom", ["up alone", "every process"])
def test_sigterm_to_everything_is_a_clean_stop_in_ten_seconds(request: pytest.FixtureRequest, whom: str) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    with short_folder("ty-stop-") as folder:
        home = new_home(folder)
        up = Up(home, NODES="2")
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                scene = Scene(up, yard, seed)
                run = scene.submit(steps=1_500)
                scene.wait_for_a_step(run)
            everything = up.descendants()
            began = time.monotonic()
            for process in everything if whom == "every process" else ():
                if psutil.pid_exists(process.pid):
                    process.terminate()
            code = up.stop()
            took_s = time.monotonic() - began
            _, alive = psutil.wait_procs(everything, timeout=max(0.0, CLEAN_S - took_s))
            took_s = time.monotonic() - began
            assert not alive, f"left: {alive}"
            assert code == 0, up.output[-2000:]
        finally:
            up.close()
        up = Up(home, NODES="2")
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                scene.up, scene.yard = up, yard
                scene.wait_for_attempt(run, 2)
                row = scene.finish(f"SIGTERM to {whom}, and a new start")
        finally:
            up.close()
    request.config.stash.setdefault(ROWS, []).append(row)
    request.config.stash.setdefault(FIGURES, []).append(Figure("SIGTERM to everything: clean stop", took_s, CLEAN_S))
    assert row.is_clean and row.attempts == 2

"""A thousand sockets, readers who do not read, and all of them back at once: everybody gets everything, in order."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import psutil
import pytest
import uvloop

from tests.chaos.faults.user_code import submit
from tests.chaos.scene import FIGURES, ROWS, Figure, Scene
from tests.chaos.watchers import Crowd
from tests.up_process import Up
from tests.whole.runs import Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
SIZE, NUM_SLOW = 1_000, 50
STORMS = 2
BACK_S = 60.0
# As often as in `make bench ARGS=sockets`; a run that steps faster is sent ten times a second at most.
STEPS = """
for step in range(21, 1_000_000):
    run.log({"train/loss": 1 / step}, step=step)
    time.sleep(0.2)
"""


def test_a_crowd_gets_everything_though_the_web_is_killed_under_it(
    running_trainyard: Up, yard: Yard, request: pytest.FixtureRequest
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    scene = Scene(running_trainyard, yard, seed)
    run = submit(scene, STEPS)
    yard.wait_for_step(run, 30)
    crowd = Crowd(running_trainyard, run, SIZE, scene.choice)
    figures = request.config.stash.setdefault(FIGURES, [])
    num_gaps, num_twice, num_behind = uvloop.run(watched(crowd, scene, run, figures))
    row = scene.finish("a thousand sockets, slow readers, storms", statuses=("CANCELLED",))
    request.config.stash.setdefault(ROWS, []).append(row)
    print(f"  {row}")
    assert (num_gaps, num_twice, num_behind) == (0, 0, 0)
    assert row.is_clean and row.attempts == 1, "training did not notice"


async def watched(crowd: Crowd, scene: Scene, run: str, figures: list[Figure]) -> tuple[int, int, int]:
    """Return how many gaps and repeated points the watchers saw, and how many of them are behind at the end."""
    crowd.come()
    try:
        took_s = await crowd.wait_until(lambda: crowd.num_open(1) == SIZE, "all sockets are open", BACK_S)
        figures.append(Figure(f"{SIZE:,} sockets are opened", took_s))
        slow = crowd.watchers[:NUM_SLOW]
        for one in slow:
            one.stop_reading()
        for storm in range(1, STORMS + 1):
            await asyncio.sleep(5 * scene.choice.random())
            os.kill(scene.up.processes()["web"], signal.SIGKILL)
            quick = crowd.watchers[NUM_SLOW:]
            back = lambda storm=storm, quick=quick: all(one.num_connections > storm for one in quick)  # noqa: E731
            figures.append(Figure(f"{SIZE:,} sockets are back", await crowd.wait_until(back, "all are back", BACK_S)))
            await asyncio.to_thread(scene.check_status, run)
        memory = psutil.Process(scene.up.processes()["web"]).memory_info().rss
        print(f"  web has {memory / 2**20:,.0f} MiB", flush=True)
        for one in slow:
            one.read_on()
        await asyncio.to_thread(scene.yard.post, f"/runs/{run}/stop")
        await asyncio.to_thread(scene.yard.wait_for_end, run)
        last = lambda: max(one.cursor for one in crowd.watchers)  # noqa: E731
        behind = lambda: sum(one.cursor < last() for one in crowd.watchers)  # noqa: E731
        await crowd.wait_until(lambda: behind() == 0, "everybody has everything", BACK_S)
        assert last() > 0
        return sum(one.num_gaps for one in crowd.watchers), sum(one.num_twice for one in crowd.watchers), behind()
    finally:
        await crowd.go()

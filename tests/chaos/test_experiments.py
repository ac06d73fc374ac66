"""One fault after another at random moments, and what is counted afterwards: nothing lost, nothing doubled, no status
that is still wrong half a minute later, nothing blamed that did not do it. `make chaos` repeats them with SEEDS seeds
and prints a table at the end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.faults import checkpoints, messages, processes, user_code
from tests.chaos.scene import NUM_SEEDS, ROWS, Scene
from tests.up_process import Up
from tests.whole.runs import Yard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def cancel_races_with_the_finish(scene: Scene) -> None:
    for _ in range(4):
        run = scene.submit(steps=60)
        scene.yard.wait_for_step(run, scene.choice.randrange(40, 60))
        time.sleep(scene.choice.random() * 0.3)
        stop(scene, run)


def cancel_races_with_the_launch(scene: Scene) -> None:
    for _ in range(6):
        run = scene.submit(steps=60)
        time.sleep(scene.choice.random() * 1.2)
        stop(scene, run)


def cancel_races_with_a_restart(scene: Scene) -> None:
    for _ in range(3):
        run = scene.submit()  # long enough that it still runs when the kill comes
        scene.wait_for_a_step(run, 20, 60)
        scene.kill_of_attempt(run, scene.any_rank)
        time.sleep(scene.choice.random() * 1.5)
        stop(scene, run)


def stop(scene: Scene, run: str) -> None:
    answer = scene.yard.http.post(f"/runs/{run}/stop")
    assert answer.status_code in (200, 409), answer.text
    status = scene.yard.wait_for_end(run)["status"]
    time.sleep(1)
    assert scene.yard.run(run)["status"] == status, "what is over stays as it is"


EITHER = ("SUCCEEDED", "CANCELLED")
EXPERIMENTS: dict[Callable[[Scene], None], tuple[str, ...]] = {
    processes.rank_is_killed: ("SUCCEEDED",),
    processes.rank_gets_sigterm_from_outside: ("SUCCEEDED",),
    processes.rank_is_stopped: ("SUCCEEDED",),
    processes.supervisor_is_killed: ("SUCCEEDED",),
    processes.node_worker_is_killed: ("SUCCEEDED",),
    processes.control_is_killed_at_launch: ("SUCCEEDED",),
    processes.site_is_restarted: ("SUCCEEDED",),
    processes.two_controls: ("SUCCEEDED",),
    processes.two_ingests: ("SUCCEEDED",),
    messages.valkey_is_killed: ("SUCCEEDED",),
    messages.valkey_is_wiped: ("SUCCEEDED",),
    messages.valkey_is_paused: ("SUCCEEDED",),
    messages.messages_come_twice: ("SUCCEEDED",),
    messages.stale_attempt_reports: ("SUCCEEDED",),
    checkpoints.checkpoint_is_truncated: ("CANCELLED",),
    checkpoints.checkpoint_has_a_flipped_bit: ("CANCELLED",),
    checkpoints.checkpoint_lost_its_manifest: ("CANCELLED",),
    checkpoints.checkpoint_lost_a_file: ("CANCELLED",),
    checkpoints.checkpoint_has_another_manifest: ("CANCELLED",),
    checkpoints.checkpoint_has_a_torn_manifest: ("CANCELLED",),
    checkpoints.checkpoint_has_a_file_of_another: ("CANCELLED",),
    cancel_races_with_the_finish: EITHER,
    cancel_races_with_the_launch: EITHER,
    cancel_races_with_a_restart: EITHER,
    user_code.children_flee: ("FAILED",),
    user_code.allocation_is_too_large: ("FAILED",),
    user_code.code_kills_its_parent: ("FAILED",),
    user_code.code_floods: ("SUCCEEDED",),
}
IN_EVERY_TEST_RUN = (processes.rank_is_killed,)  # the others are run by `make chaos`


def parameters() -> list[Any]:
    short = [pytest.param(fault, id=fault.__name__) for fault in IN_EVERY_TEST_RUN]
    others = [fault for fault in EXPERIMENTS if fault not in IN_EVERY_TEST_RUN]
    return [*short, *(pytest.param(fault, id=fault.__name__, marks=pytest.mark.extended) for fault in others)]


@pytest.mark.parametrize("number", range(NUM_SEEDS))
@pytest.mark.parametrize("fault", parameters())
def test_after_a_fault_nothing_is_lost_or_doubled_and_every_status_is_true(
    running_trainyard: Up, yard: Yard, request: pytest.FixtureRequest, fault: Callable[[Scene], None], number: int
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000))) + number
    print(f"\nCHAOS_SEED={seed} {fault.__name__}", flush=True)
    scene = Scene(running_trainyard, yard, seed)
    fault(scene)
    row = scene.finish(fault.__name__.replace("_", " "), statuses=EXPERIMENTS[fault])
    request.config.stash.setdefault(ROWS, []).append(row)
    print(f"  {row}")
    assert row.is_clean
    assert row.points > 0 or fault is cancel_races_with_the_launch

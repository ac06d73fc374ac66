"""What was acknowledged is stored once, whoever is killed: the spools and REST's answers against the store.

`make chaos` does this with 20 seeds; CHAOS_SEED is the first of them.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos.losses.experiment import Experiment, experiment, sabotaged
from tests.up_process import Up

NUM_SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
FAULTS = (
    Experiment.kill_rank,
    Experiment.kill_supervisor,
    Experiment.kill_ingest,
    Experiment.kill_valkey,
    Experiment.wipe_valkey,
    Experiment.wipe_valkey_with_frames_in_it,
    Experiment.kill_web,
)

pytestmark = [pytest.mark.slow, pytest.mark.extended]


def seeded(number: int = 0) -> random.Random:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000))) + number
    print(f"\nCHAOS_SEED={seed}", end=" ", flush=True)
    return random.Random(seed)


@pytest.mark.parametrize("number", range(NUM_SEEDS))
def test_no_acknowledged_point_is_lost_or_doubled_whoever_is_killed(running_trainyard: Up, number: int) -> None:
    choice = seeded(number)
    with experiment(running_trainyard, choice) as one:
        for fault in choice.sample(FAULTS, len(FAULTS)):
            one.pause()
            print(fault.__name__, end=" ", flush=True)
            fault(one)
        one.pause()
        has_settled = one.settle()
        num_attempts = one.num_attempts()
        spools, rest = one.compare()
        print(f"\n  {num_attempts} attempts; of the spools {spools}; of REST {rest}")
    assert has_settled, "something never arrived"
    assert num_attempts >= len(one.runs) + 2, "a killed rank and a killed supervisor each end an attempt"
    assert spools.num_expected > 1_000 and rest.num_expected > 100
    assert (spools.num_lost, spools.num_doubled) == (0, 0)
    assert (rest.num_lost, rest.num_doubled) == (0, 0)


def test_the_checker_sees_points_that_are_doubled_for_want_of_deduplication() -> None:
    choice = seeded()
    with sabotaged("deduplication", choice) as one:
        one.wipe_valkey_behind_control()
        for _ in range(3):  # each doubles what was acknowledged over REST and not yet known to be
            one.wipe_valkey()
            one.pause()
        one.settle(patience_s=20)
        spools, rest = one.compare()
        print(f"\n  of the spools {spools}; of REST {rest}")
    assert spools.num_doubled > 0
    assert rest.num_doubled > 0


def test_the_checker_sees_points_that_are_lost_for_want_of_watermarks() -> None:
    choice = seeded()
    with sabotaged("watermarks", choice) as one:
        one.pause()
        one.wipe_valkey_with_frames_in_it()
        assert not one.settle(patience_s=5), "what the stream lost came again"
        spools, _ = one.compare()
        print(f"\n  of the spools {spools}")
    assert spools.num_lost > 0

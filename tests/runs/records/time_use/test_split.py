"""Where the time went, case by case. Moments are seconds since the run was submitted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from runs.records.time_use.split import AttemptOutcome, AttemptSpan, StatusSpan, TimeUse, time_use
from runs.values.status import Status


def spans(*changes: tuple[Status, float]) -> list[StatusSpan]:
    """The statuses by when they began; the last one is the end."""
    return [StatusSpan(status, start, end) for (status, start), (_, end) in pairwise(changes)]


def attempt(start: float, end: float, outcome: AttemptOutcome = AttemptOutcome.FINISHED, **moments: Any) -> AttemptSpan:
    return AttemptSpan(start=start, end=end, outcome=outcome, **moments)


QUEUED, RUNNING, RECOVERING = Status.QUEUED, Status.RUNNING, Status.RECOVERING
RESIZING = Status.RESIZING
PAUSED, SUCCEEDED, FAILED = Status.PAUSED, Status.SUCCEEDED, Status.FAILED
STEPS = {"first_step_at": 15.0, "last_step_at": 95.0}

CASES: dict[str, tuple[list[StatusSpan], list[AttemptSpan], dict[str, float]]] = {
    "it waits": (spans((QUEUED, 0), (QUEUED, 30)), [], {"queued_s": 30}),
    "undisturbed": (
        spans((QUEUED, 0), (Status.SCHEDULED, 10), (RUNNING, 12), (SUCCEEDED, 100), (SUCCEEDED, 500)),
        [attempt(10, 100, **STEPS, stall_s=2.0)],
        {"queued_s": 10, "starting_s": 5, "productive_s": 83, "checkpoint_s": 2},
    ),
    "its end was known late": (
        spans((QUEUED, 0), (RUNNING, 10), (RECOVERING, 40), (RUNNING, 290), (SUCCEEDED, 300), (SUCCEEDED, 300)),
        [attempt(10, 300, first_step_at=15.0, last_step_at=35.0, over_at=37.0)],
        {"queued_s": 10, "starting_s": 5, "productive_s": 22, "detection_s": 263},
    ),
    "its only attempt failed: nobody trains a step again": (
        spans((QUEUED, 0), (RUNNING, 10), (FAILED, 100), (FAILED, 100)),
        [attempt(10, 100, AttemptOutcome.FAILED, **STEPS, broke_at=97.0)],
        {"queued_s": 10, "starting_s": 5, "productive_s": 82, "detection_s": 3},
    ),
    "it trains now": (
        spans((QUEUED, 0), (RUNNING, 10), (RUNNING, 100)),
        [attempt(10, 100, AttemptOutcome.LIVE, **STEPS)],
        {"queued_s": 10, "starting_s": 5, "productive_s": 85},
    ),
    "it starts now": (
        spans((QUEUED, 0), (Status.STARTING, 10), (Status.STARTING, 14)),
        [attempt(10, 14, AttemptOutcome.LIVE)],
        {"queued_s": 10, "starting_s": 4},
    ),
    "out of contact, and nobody knows whether it trains": (
        spans((QUEUED, 0), (RUNNING, 10), (RECOVERING, 97), (RECOVERING, 120)),
        [attempt(10, 120, AttemptOutcome.LIVE, **STEPS, is_silent=True)],
        {"queued_s": 10, "starting_s": 5, "productive_s": 80, "detection_s": 25},
    ),
    "an attempt died at its start and another took over": (
        spans((QUEUED, 0), (Status.STARTING, 10), (RECOVERING, 20), (RUNNING, 24), (SUCCEEDED, 60), (SUCCEEDED, 60)),
        [
            attempt(10, 20, AttemptOutcome.FAILED, broke_at=18.0),
            attempt(24, 60, first_step_at=26.0, last_step_at=59.0),
        ],
        {"queued_s": 10, "starting_s": 8, "detection_s": 2, "restart_s": 6, "productive_s": 34},
    ),
    "it is resized": (
        spans((QUEUED, 0), (RUNNING, 10), (RESIZING, 95), (RUNNING, 100), (SUCCEEDED, 200), (SUCCEEDED, 200)),
        [
            attempt(10, 97, AttemptOutcome.RESIZED, **STEPS),
            attempt(98, 200, first_step_at=101.0, last_step_at=199.0),
        ],
        {"queued_s": 10, "starting_s": 5, "productive_s": 179, "checkpoint_s": 2, "restart_s": 4},
    ),
    "a restart trains some steps again": (
        spans((QUEUED, 0), (RUNNING, 10), (RECOVERING, 102), (RUNNING, 104), (SUCCEEDED, 200), (SUCCEEDED, 200)),
        [
            attempt(10, 102, AttemptOutcome.FAILED, **STEPS, broke_at=97.0),
            attempt(104, 200, first_step_at=105.0, repeated_until=120.0, last_step_at=199.0),
        ],
        # The step that broke off, from 95 to 97, is trained again too.
        {
            "queued_s": 10, "starting_s": 5, "productive_s": 160, "recomputed_s": 17, "detection_s": 5, "restart_s": 3,
        },
    ),
    "an attempt that never came as far as the one before": (
        spans((QUEUED, 0), (RUNNING, 10), (RECOVERING, 100), (RUNNING, 100), (FAILED, 130), (FAILED, 900)),
        [
            attempt(10, 100, AttemptOutcome.FAILED, **STEPS),
            attempt(100, 130, AttemptOutcome.FAILED, first_step_at=102.0, repeated_until=125.0, last_step_at=125.0),
        ],
        {"queued_s": 10, "starting_s": 5, "productive_s": 80, "recomputed_s": 23, "detection_s": 10, "restart_s": 2},
    ),
    "a person restarts it the next day": (
        spans((QUEUED, 0), (RUNNING, 10), (FAILED, 100), (QUEUED, 9_000), (RUNNING, 9_010), (RUNNING, 9_050)),
        [
            attempt(10, 100, AttemptOutcome.FAILED, **STEPS),
            attempt(9_010, 9_050, AttemptOutcome.LIVE, first_step_at=9_012.0, last_step_at=9_049.0),
        ],
        {"queued_s": 20, "starting_s": 5, "productive_s": 118, "detection_s": 5, "restart_s": 2},
    ),
    "paused and resumed": (
        spans(
            (QUEUED, 0), (RUNNING, 10), (Status.STOPPING, 96), (PAUSED, 99), (QUEUED, 500), (RUNNING, 510),
            (SUCCEEDED, 600), (SUCCEEDED, 600),
        ),
        [
            attempt(10, 99, AttemptOutcome.ASKED, **STEPS),
            attempt(510, 600, first_step_at=512.0, last_step_at=599.0),
        ],
        {"queued_s": 20, "starting_s": 7, "productive_s": 168, "checkpoint_s": 4, "paused_s": 401},
    ),
    "a start that was called off is no failure": (
        spans((QUEUED, 0), (Status.SCHEDULED, 10), (QUEUED, 13), (RUNNING, 20), (SUCCEEDED, 50), (SUCCEEDED, 50)),
        [attempt(10, 13, AttemptOutcome.CALLED_OFF), attempt(20, 50, first_step_at=22.0, last_step_at=50.0)],
        {"queued_s": 17, "starting_s": 5, "productive_s": 28},
    ),
    "a script that logs no step is productive once it runs": (
        spans((QUEUED, 0), (RUNNING, 10), (SUCCEEDED, 100), (SUCCEEDED, 100)),
        [attempt(8, 100, running_at=12.0, counts_steps=False)],
        {"queued_s": 8, "starting_s": 4, "productive_s": 88},
    ),
    "clocks of nodes that are off": (
        spans((QUEUED, 0), (RUNNING, 10), (RECOVERING, 50), (RECOVERING, 60)),
        [attempt(10, 50, AttemptOutcome.FAILED, first_step_at=5.0, last_step_at=3_000.0, broke_at=2.0)],
        {"queued_s": 10, "productive_s": 40, "restart_s": 10},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_time_goes_where_it_belongs_and_adds_up_to_the_wall_time(name: str) -> None:
    statuses, attempts, expected = CASES[name]
    found = time_use(statuses, attempts)
    assert found.by_name() == pytest.approx(TimeUse(**expected).by_name()), name
    wall_s = sum(one.end - one.start for one in statuses if one.status not in (SUCCEEDED, FAILED))
    assert found.total_s == pytest.approx(wall_s, abs=1e-9)


def test_goodput_is_the_productive_share_of_all() -> None:
    assert TimeUse(queued_s=25, productive_s=75).goodput == 0.75
    assert TimeUse().goodput is None

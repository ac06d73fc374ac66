"""The life of a run as a table."""

from __future__ import annotations

import pytest

from runs.values.status import FINAL, LIVE, PLACED, TRANSITIONS, Status, TransitionError, check_transition


def test_every_status_says_what_may_follow() -> None:
    assert TRANSITIONS.keys() == set(Status)
    assert set(Status) == FINAL | LIVE and not FINAL & LIVE and PLACED <= LIVE


@pytest.mark.parametrize("current", list(Status))
def test_only_what_the_table_names_may_follow(current: Status) -> None:
    for wanted in Status:
        if wanted in TRANSITIONS[current]:
            check_transition(current, wanted)
        else:
            with pytest.raises(TransitionError, match=f"{current} cannot become {wanted}"):
                check_transition(current, wanted)


def test_what_has_ended_is_only_queued_again_and_success_stays() -> None:
    assert TRANSITIONS[Status.SUCCEEDED] == frozenset()
    assert TRANSITIONS[Status.FAILED] == TRANSITIONS[Status.CANCELLED] == {Status.QUEUED}


def test_every_status_can_be_reached_and_left() -> None:
    reached = {Status.QUEUED}
    while more := {follower for status in reached for follower in TRANSITIONS[status]} - reached:
        reached |= more
    assert reached == set(Status)


@pytest.mark.parametrize("status", sorted(LIVE))
def test_whatever_lives_can_be_stopped(status: Status) -> None:
    assert TRANSITIONS[status] & {Status.CANCELLED, Status.STOPPING}

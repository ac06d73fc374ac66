"""The order in which a slider goes through what was logged, and what stands at a step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

MODULE = "media/steps.js"


def entry(step: int, attempt: int = 1, *, rank: int = 0, superseded: bool = False) -> dict[str, Any]:
    return {"step": step, "attempt": attempt, "rank": rank, "time": step, "superseded": superseded}


# The first attempt came to step 30, the second began again at 20 and is at 25.
RESTARTED = [entry(10), entry(20, superseded=True), entry(20, 2), entry(25, 2), entry(30, superseded=True)]


def test_entries_are_in_the_order_of_training(ask: Ask) -> None:
    found = ask(MODULE, "({arranged}, entries) => arranged(entries)", RESTARTED)
    assert [(one["attempt"], one["step"]) for one in found] == [(1, 10), (1, 20), (1, 30), (2, 20), (2, 25)]


def test_ranks_stand_side_by_side_at_a_step(ask: Ask) -> None:
    entries = [entry(1, rank=1), entry(2, rank=0), entry(1, rank=0)]
    found = ask(MODULE, "({arranged}, entries) => arranged(entries)", entries)
    assert [(one["step"], one["rank"]) for one in found] == [(1, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    ("step", "stands"), [(9, None), (10, (1, 10)), (19, (1, 10)), (20, (2, 20)), (26, (2, 25)), (99, (2, 25))]
)
def test_what_stands_at_a_step_is_the_newest_that_was_not_logged_again(
    step: int, stands: tuple[int, int] | None, ask: Ask
) -> None:
    function = """({arranged, standingAt}, [entries, step]) => {
        const all = arranged(entries);
        const found = all[standingAt(all, step)];
        return found ? [found.attempt, found.step] : null;
    }"""
    assert ask(MODULE, function, [RESTARTED, step]) == (list(stands) if stands else None)


def test_all_cards_share_the_steps_of_each(ask: Ask) -> None:
    assert ask(MODULE, "({union}) => union([[10, 5], [], [5, -1]])") == [-1, 5, 10]

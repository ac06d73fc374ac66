"""The lineage of a population on the page of its sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.sweeps.lineage import LIMIT, Drawing, drawing
from runs.models import User
from runs.sweeps.populations.lineage import Branch, tree
from tests.cast import Cast, spec
from tests.dashboard.pages.test_sweeps import make_sweep, make_trial

RATE = "train.learning_rate"
LABELS = {RATE: "learning_rate"}


def branch(number: int, rate: float, parent: int | None = None, start: int = 0, **changes: Any) -> Branch:
    values = {"end": 100, "state": "COMPLETE", "value": 1.0, **changes}
    return Branch(number=number, parent=parent, start=start, parameters={RATE: rate}, run=f"run-{number}", **values)


def drawn(*branches: Branch, best: int | None = None) -> Drawing:
    return drawing(tree(branches, best), LABELS, 100)


def test_a_trial_stands_below_its_parent_and_begins_where_the_parent_was() -> None:
    found = drawn(
        branch(0, 0.01), branch(1, 0.1, end=25, state="PRUNED"), branch(2, 0.02, 0, 25), branch(3, 0.03, 0, 50),
    )  # fmt: skip
    assert [one.number for one in found.lanes] == [0, 3, 2, 1], "no line crosses a bar"
    late = found.lanes[1]
    assert (late.x, late.width, late.anchor, late.url) == ("50.00%", "50.00%", "end", "/runs/run-3/")
    assert late.parent_y == found.lanes[0].bar_y
    assert late.words == (
        "Trial 3 goes on from trial 0, steps 50 to 100, complete, value 1, learning_rate 0.010 → 0.030"
    )
    assert found.lanes[0].parent_y is None and found.lanes[3].colour == "grey"


def test_what_led_to_the_best_trial_is_marked_and_has_its_steps_and_changes() -> None:
    found = drawn(branch(0, 0.01), branch(1, 0.1), branch(2, 0.02, 0, 25), best=2)
    assert [one.number for one in found.lanes if one.is_best] == [0, 2]
    assert [(one.number, one.steps) for one in found.stages] == [(0, "steps 0 to 25"), (2, "steps 25 to 100")]
    assert [one.settings for one in found.stages] == [
        [("learning_rate", "0.010")], [("learning_rate", "0.010 → 0.020")],
    ]  # fmt: skip


def test_of_a_large_population_the_line_of_the_best_and_the_newest_are_drawn() -> None:
    found = drawn(*(branch(number, 0.01, end=None, value=None) for number in range(LIMIT + 50)), best=3)
    numbers = {one.number for one in found.lanes}
    assert len(found.lanes) == LIMIT and found.num_all == LIMIT + 50 and {3, LIMIT + 49} <= numbers
    assert 4 not in numbers and found.stages[0].steps == "from step 0"


@pytest.mark.django_db
def test_only_a_population_has_the_card(as_user: Callable[[User], Client], cast: Cast) -> None:
    client = as_user(cast.viewer)
    population = {
        "base": spec(), "space": {RATE: {"low": 1e-4, "high": 1e-1, "log": True}}, "sampler": {"name": "population"},
        "budget": {"trials": 8, "parallel": 4},
    }  # fmt: skip
    sweep = make_sweep(cast, document=population)
    assert "The first trials have not begun." in client.get(f"/sweeps/{sweep.pk}/").content.decode()
    parent = make_trial(cast, sweep, 0, 0.5, 1e-2)
    sweep.best = make_trial(cast, sweep, 1, 0.4, 2e-2, parent=parent, parent_step=100)
    sweep.save()
    part = client.get(f"/sweeps/{sweep.pk}/?fragment=lineage").content.decode()
    assert "Trial 1 goes on from trial 0, steps 100 to 300" in part and f"/runs/{parent.run_id}/" in part
    assert 'aria-label="1: 0.400 Trial 1 goes on' in part, "the name begins with what one sees"
    assert "What led to the best trial" in part and "Best so far" not in part
    alone = make_sweep(cast, name="alone")
    assert "lineage" not in client.get(f"/sweeps/{alone.pk}/").content.decode()

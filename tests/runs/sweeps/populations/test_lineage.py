"""The tree of a population, and the line of one trial as a single run."""

from __future__ import annotations

from typing import Any

import pytest

from runs.sweeps.populations.lineage import Branch, line_of, replay, tree
from trainyard.spec import parse_spec

BASE = {"name": "b", "task": {"recipe": "language-model"}, "train": {"steps": 40, "batch_size": 8}}


def branch(number: int, parent: int | None = None, start: int = 0, end: int | None = 40, **parameters: Any) -> Branch:
    known = {"train.learning_rate": 0.1 * (number + 1), "train.batch_size": 8, "task.model.width": 32}
    return Branch(number, parent, start, end, "COMPLETE", 1.0, {**known, **parameters})


BRANCHES = [branch(0), branch(1, end=10), branch(2, 0, 10, 20), branch(3, 2, 20, **{"train.batch_size": 16})]


def test_the_tree_has_children_changes_and_the_best_line() -> None:
    nodes = {one.number: one for one in tree(BRANCHES, best=3)}
    assert nodes[0].children == (2,) and nodes[2].children == (3,) and nodes[1].children == ()
    assert [number for number, one in nodes.items() if one.is_on_best_line] == [0, 2, 3]
    assert nodes[3].changed["train.batch_size"] == (8, 16)
    assert set(nodes[2].changed) == {"train.learning_rate"} and nodes[0].changed == {}


def test_a_line_is_one_run_whose_settings_change() -> None:
    segments = line_of(BRANCHES, 3)
    assert [(one.trial, one.behind, one.until) for one in segments] == [(0, 0, 10), (2, 10, 20), (3, 20, 40)]
    document = replay(BASE, segments, "again")
    spec = parse_spec(document).resolved()
    assert (spec["name"], spec["train"]["learning_rate"], spec["task"]["model"]["width"]) == ("again", 0.1, 32)
    assert document["changes"] == [
        {"behind": 10, "learning_rate": pytest.approx(0.3)},
        {"behind": 20, "learning_rate": 0.4, "batch_size": 16},
    ]


def test_what_cannot_be_replayed_is_named() -> None:
    odd = [BRANCHES[0], branch(2, 0, 10, **{"task.model.width": 64})]
    with pytest.raises(ValueError, match=r"task\.model\.width"):
        replay(BASE, line_of(odd, 2), "again")
    with pytest.raises(ValueError, match="trial 7"):
        line_of([branch(2, 7, 10)], 2)

"""Who is replaced, by whom, and from where: tables of cases."""

from __future__ import annotations

from typing import Any

from runs.sweeps.populations.deciding import Population, verdicts
from runs.sweeps.populations.lineage import Member, boundary_scores
from trainyard.spec.sweeps.models import Dimension, Sampler

SPACE = {
    "train.learning_rate": Dimension(low=1e-4, high=1e-1, log=True),
    "train.batch_size": Dimension(values=[8, 16, 32]),
    "task.model.width": Dimension(values=[16, 32]),
}
SETTINGS = Sampler(name="population", size=4, interval=10)


def member(number: int, score: float | None, **changes: Any) -> Member:
    known: dict[str, Any] = {
        "parameters": {"train.learning_rate": 0.001 * (number + 1), "train.batch_size": 16, "task.model.width": 16},
        "scores": {} if score is None else {10: score},
        "checkpoints": frozenset() if score is None else frozenset({10}),
    }
    return Member(number, **{**known, **changes})


def decided(members: list[Member], settings: Sampler = SETTINGS, **changes: Any) -> list[Any]:
    room = changes.pop("room", 10)
    return verdicts(Population(settings, SPACE, members, **{"seed": 0, "last_step": 100, **changes}), room)


def test_the_worst_goes_on_from_the_best_with_other_hyperparameters() -> None:
    members = [member(0, 0.9), member(1, 0.5), member(2, 0.7), member(3, 0.1)]
    found = {one.number: one for one in decided(members)}
    assert sorted(found) == [0, 1, 2, 3]
    assert [found[number].successor for number in (0, 1, 2)] == [None] * 3
    successor = found[3].successor
    assert (successor.parent, successor.parent_step) == (0, 10)
    assert successor.parameters["task.model.width"] == members[0].parameters["task.model.width"]
    assert successor.parameters["train.learning_rate"] != members[0].parameters["train.learning_rate"]
    assert 1e-4 <= successor.parameters["train.learning_rate"] <= 1e-1


def test_the_same_members_and_seed_give_the_same_verdicts() -> None:
    members = [member(number, number / 10) for number in range(4)]
    assert decided(members) == decided(members[::-1])
    assert len({str(decided(members, seed=seed)) for seed in range(8)}) > 1


def test_too_few_have_been_as_far_to_be_compared() -> None:
    assert decided([member(0, 0.9), member(1, None), member(2, None), member(3, None)]) == []
    found = decided([member(0, 0.9), member(1, 0.1), member(2, None), member(3, None)])
    assert [(one.number, one.successor is None) for one in found] == [(0, True), (1, False)]


def test_one_that_was_judged_is_judged_again_at_the_next_boundary() -> None:
    members = [member(0, 0.9, judged=10), member(1, 0.1, judged=10)]
    assert decided(members) == []
    later = [member(0, 0.9, judged=10), member(1, 0.1, judged=10, scores={10: 0.1, 20: 0.2})]
    assert decided(later) == [], "nobody else has been as far"


def test_a_bad_member_waits_for_the_checkpoint_of_a_good_one() -> None:
    members = [member(0, 0.9, checkpoints=frozenset()), member(1, 0.1)]
    assert [one.number for one in decided(members)] == [0]
    members = [member(0, 0.9, checkpoints=frozenset({5, 20, 30})), member(1, 0.1)]
    assert [one.successor.parent_step for one in decided(members) if one.successor] == [20], "the next that is kept"


def test_values_that_are_not_finite_are_the_worst_and_nobody_goes_on_from_them() -> None:
    found = decided([member(0, 0.2), member(1, float("-inf"))])
    assert [one.successor is None for one in found] == [True, False]
    assert [one.successor for one in decided([member(0, float("-inf")), member(1, float("-inf"))])] == [None]


def test_one_that_failed_for_good_has_a_successor_and_the_others_go_on() -> None:
    failed = member(1, None, is_training=False, has_failed=True)
    found = {one.number: one.successor for one in decided([member(0, 0.9), failed, member(2, 0.5)])}
    assert (found[1].parent, found[1].parent_step) == (0, 10)
    alone = decided([member(0, None), failed])
    assert [(one.number, one.successor.parent) for one in alone] == [(1, None)], "nothing to go on from: anew"


def test_there_are_no_more_successors_than_there_is_room_for_and_none_at_the_end() -> None:
    members = [member(number, number / 10) for number in range(8)]
    settings = Sampler(name="population", size=8, interval=10, quantile=0.5)
    assert sum(one.successor is not None for one in decided(members, settings)) == 4
    limited = decided(members, settings, room=1)
    assert sum(one.successor is not None for one in limited) == 1
    assert [one.number for one in limited if one.successor is None] == [4, 5, 6, 7]
    assert decided(members, settings, last_step=10) == []


def test_scores_are_those_of_the_last_report_before_each_boundary() -> None:
    reports = [(2, 5.0), (9, 3.0), (10, 2.0), (18, float("nan")), (21, 1.0)]
    assert boundary_scores(reports, interval=10, start=0, sign=1, reached=21) == {10: -2.0, 20: float("-inf")}
    assert boundary_scores(reports, interval=10, start=10, sign=-1, reached=0) == {20: float("-inf")}
    assert boundary_scores([(9, 3.0)], interval=10, start=0, sign=1, reached=9) == {}
    assert boundary_scores([(9, 3.0)], interval=10, start=0, sign=1, reached=10) == {10: -3.0}

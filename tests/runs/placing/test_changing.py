"""Whether an elastic run changes its nodes, and who makes room for whom: tables of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runs.placing.changing import Change, Training, change_of, shared_out
from runs.placing.fitting import Placed, Request, Room, Waiting
from runs.placing.policies import Standing
from runs.placing.preempting import Concession, SlotHolder, askable, make_room
from runs.placing.scheduling import place
from runs.placing.speeds import ASSUMED, speed_of
from tests.runs.placing.test_scheduling import nodes_of, room


def training(*nodes: str, **changes: Any) -> Training:
    values: dict[str, Any] = {"node_counts": (1, 2, 3), "slots_per_node": 1, "accelerator": "cpu"}
    return Training("a", nodes, **{**values, **changes})


def busy(name: str, **changes: Any) -> Room:
    return room(name, 1, free=0, **changes)


def test_a_run_that_has_what_there_is_stays() -> None:
    assert change_of(training("x"), [busy("x")], may_grow=True) is None


def test_it_grows_onto_what_is_free_up_to_its_most() -> None:
    rooms = [busy("x"), room("y", 1), room("z", 1), room("w", 1)]
    assert change_of(training("x"), rooms, may_grow=True) == Change(3, joining=("w", "y"))
    assert change_of(training("x"), rooms, may_grow=False) is None


def test_it_takes_only_numbers_that_work() -> None:
    rooms = [busy("x"), busy("y"), room("z", 1)]
    assert change_of(training("x", "y", node_counts=(1, 2, 4)), rooms, may_grow=True) is None


def test_nodes_of_another_kind_too_small_drained_silent_or_left_out_do_not_count() -> None:
    rooms = [
        busy("x"), room("g", accelerator="gpu"), room("d", is_draining=True), room("o", is_in_contact=False),
        room("f"), room("s", 2, free=1),
    ]  # fmt: skip
    found = training("x", slots_per_node=2, left_out=frozenset({"f"}))
    assert change_of(found, rooms, may_grow=True) is None


def test_a_run_in_a_container_does_not_grow_onto_a_node_without_podman() -> None:
    rooms = [busy("x"), room("bare", 1, runs_containers=False), room("y", 1)]
    assert change_of(training("x", in_container=True), rooms, may_grow=True) == Change(2, joining=("y",))
    assert change_of(training("x"), rooms, may_grow=True) == Change(3, joining=("bare", "y"))


def test_a_drained_node_is_left_at_once() -> None:
    rooms = [busy("x"), busy("y", is_draining=True)]
    assert change_of(training("x", "y"), rooms, may_grow=True) == Change(1, leaving=("y",))
    assert change_of(training("x", "y"), [*rooms, room("z", 1)], may_grow=True) == Change(2, ("y",), ("z",))
    assert change_of(training("x", "y"), [*rooms, room("z", 1)], may_grow=False) == Change(1, ("y",))
    assert not Change(2, ("y",), ("z",)).is_growth and Change(2, (), ("z",)).is_growth


def test_less_than_its_least_number_is_no_place_to_go() -> None:
    rooms = [busy("x"), busy("y", is_draining=True)]
    assert change_of(training("x", "y", node_counts=(2, 3)), rooms, may_grow=True) is None


def test_a_smaller_number_that_a_person_wants_shrinks_it() -> None:
    assert change_of(training("x", "y", node_counts=(1,)), [busy("x"), busy("y")], may_grow=True) == Change(1)


def test_an_elastic_run_starts_with_as_many_as_are_free() -> None:
    request = Request("a", 1, 1, node_counts=(1, 2, 4))
    assert nodes_of(place("lab", [request], [room("x"), room("y"), room("z")])[0]) == ["x", "y"]
    assert nodes_of(place("lab", [request], [room("x")])[0]) == ["x"]


def test_two_elastic_runs_start_both_before_one_is_widened() -> None:
    requests = [Request(name, 1, 2, node_counts=(1, 2, 3)) for name in ("a", "b")]
    answers = place("lab", requests, [room(name) for name in ("x", "y", "z")])
    assert [len(nodes_of(answer)) for answer in answers] == [2, 1]
    taken = [part for answer in answers if isinstance(answer, Placed) for part in answer.parts]
    assert len({part.node for part in taken}) == 3


def test_nobody_is_widened_while_somebody_waits() -> None:
    requests = [Request("a", 1, 2, node_counts=(1, 2)), Request("large", 2, 2)]
    answers = place("lab", requests, [room("x"), room("y")])
    assert nodes_of(answers[0]) == ["x"]
    assert isinstance(answers[1], Waiting) and answers[1].has_claim


def test_a_run_that_can_never_start_keeps_nobody_small() -> None:
    requests = [Request("a", 1, 2, node_counts=(1, 2)), Request("huge", 9, 2)]
    answers = place("lab", requests, [room("x"), room("y")])
    assert nodes_of(answers[0]) == ["x", "y"]
    assert isinstance(answers[1], Waiting) and not answers[1].has_claim


def holder(name: str, *nodes: str, priority: int = 50, least: int = 0, project: str = "") -> SlotHolder:
    counts = tuple(range(least, len(nodes) + 1)) if least else ()
    request = Request(name, least or len(nodes), 1, node_counts=counts, priority=priority, project=project)
    return SlotHolder(request, tuple((node, (0,)) for node in nodes))


FAST, SLOW = speed_of({1: 1.0, 2: 0.5}), speed_of({1: 1.0, 2: 0.8})


@pytest.mark.parametrize(
    ("free", "most"),
    [
        (0, {}),
        (1, {"fast": 2}),
        (2, {"fast": 3}),
        (3, {"fast": 3, "unknown": 2}),
        (4, {"fast": 3, "unknown": 3}),
        (5, {"fast": 3, "unknown": 3, "slow": 2}),
        (9, {"fast": 3, "unknown": 3, "slow": 3}),
    ],
)
def test_idle_nodes_go_to_who_gains_most_by_its_own_steps(free: int, most: dict[str, int]) -> None:
    """Further nodes: 1, 1 for the fast one, 0.82, 0.68 for one that nobody measured, 0.25, 0.18 for the slow one."""
    runs = [
        replace(training(name), run=name, speed=speed)
        for name, speed in (("slow", SLOW), ("unknown", ASSUMED), ("fast", FAST))
    ]
    rooms = [*map(busy, ("slow", "unknown", "fast")), *(room(f"free-{number}", 1) for number in range(free))]
    assert shared_out(runs, rooms) == most


def test_who_gains_alike_grows_by_age_and_only_onto_what_it_can_use() -> None:
    old, young = (replace(training(name), run=name) for name in ("old", "young"))
    boxed = replace(training("boxed", in_container=True), run="boxed", speed=FAST)
    rooms = [*map(busy, ("old", "young", "boxed")), room("bare", 1, runs_containers=False)]
    assert shared_out([boxed, old, young], rooms) == {"old": 2}
    assert shared_out([young, old], rooms) == {"young": 2}
    wide = replace(training("old", node_counts=(1, 3)), run="old")
    assert shared_out([wide], rooms) == {}, "it has no use for one"
    assert shared_out([wide], [*rooms, room("y", 1)]) == {"old": 3}


def test_the_law_of_speed_is_fitted_to_what_was_measured() -> None:
    assert ASSUMED.times(1, 2) == pytest.approx(1 / 0.55) and ASSUMED.times(4, 8) == pytest.approx(0.325 / 0.2125)
    assert FAST.gain(1, 1, 2) == FAST.gain(1, 2, 3) == 1.0
    assert SLOW.gain(1, 1, 2) == pytest.approx(0.25) and SLOW.gain(1, 2, 3) < 0.25
    one = speed_of({2: 0.5})
    assert one.times(2, 4) == pytest.approx(0.55 / 0.325) and "nine tenths" in one.basis(2, 4)
    three = speed_of({1: 1.1, 2: 0.6, 4: 0.35})
    assert (three.fixed_s, three.divided_s) == (pytest.approx(0.1), pytest.approx(1.0))
    assert three.times(1, 2) == pytest.approx(1.1 / 0.6) and three.basis(1, 2) == "as it measured on both"
    assert three.basis(4, 8) == "by its steps on 1, 2 and 4 nodes"
    assert speed_of({1: 1.0, 2: 1.2}).gain(1, 1, 2) == 0.0, "more nodes are slower: no part is below zero"
    assert speed_of({1: 1.0, 2: 0.4}).gain(1, 2, 3) == 1.0, "no law is better than equal parts"


HIGH = Request("high", 1, 1, priority=75)


def test_of_elastic_runs_the_one_that_loses_least_shrinks_by_as_little_as_is_needed() -> None:
    names = ("a", "b", "c", "d", "e", "f")
    fast = replace(holder("fast", *names[:3], least=1), speed=FAST)
    slow = replace(holder("slow", *names[3:], least=1), speed=SLOW)
    rooms = [busy(name) for name in names]
    assert make_room(HIGH, rooms, [slow, fast]) == [Concession("slow", 2)]
    assert make_room(replace(HIGH, num_nodes=2), rooms, [slow, fast]) == [Concession("slow", 1)]
    assert make_room(replace(HIGH, num_nodes=3), rooms, [slow, fast]) == [Concession("slow", 1), Concession("fast", 2)]
    lower = replace(fast, request=replace(fast.request, priority=25))
    assert make_room(HIGH, rooms, [slow, lower]) == [Concession("fast", 2)], "priorities go first"


def test_what_was_idle_is_given_back_to_equals_of_any_project_and_nobody_ends_for_them() -> None:
    elastic, fixed = holder("elastic", "x", "y", least=1, project="else"), holder("fixed", "z", project="else")
    equal = Request("equal", 1, 1, project="own")
    found = askable(equal, [elastic, fixed], {}, asks_others=False)
    assert found == [replace(elastic, may_end=False)]
    rooms = [busy("x"), busy("y"), busy("z")]
    assert make_room(equal, rooms, found) == [Concession("elastic", 1)]
    assert make_room(replace(equal, num_nodes=2), rooms, found) == []
    assert askable(replace(equal, priority=25), [elastic], {}) == [], "it has the higher priority"
    assert askable(equal, [elastic], {"else": Standing(held=2.0, guaranteed=2)}) == []
    assert askable(equal, [replace(elastic, trained_s=5.0)], {}, spared_s=6) == []


def test_an_elastic_run_shrinks_before_anybody_ends() -> None:
    rooms = [busy("x"), busy("y"), busy("z")]
    holders = [holder("fixed", "z"), holder("elastic", "x", "y", least=1)]
    assert make_room(HIGH, rooms, holders) == [Concession("elastic", 1)]


def test_the_youngest_of_the_lowest_priority_ends_first_and_nobody_more_than_needed() -> None:
    rooms = [busy("x"), busy("y"), busy("z")]
    holders = [holder("old", "x"), holder("low", "y", priority=25), holder("young", "z")]
    assert make_room(HIGH, rooms, holders) == [Concession("low", 0)]
    assert make_room(Request("high", 2, 1, priority=75), rooms, holders) == [
        Concession("low", 0),
        Concession("young", 0),
    ]


def test_nobody_makes_room_where_that_does_not_help() -> None:
    assert make_room(Request("high", 3, 1, priority=75), [busy("x"), busy("y")], [holder("a", "x")]) == []
    assert make_room(HIGH, [busy("x")], askable(HIGH, [holder("equal", "x", priority=75)], {})) == []


def test_a_higher_priority_asks_runs_of_other_projects_only_where_the_policy_says_so() -> None:
    mine, others = holder("mine", "x", project="own"), holder("others", "y", project="else")
    high = replace(HIGH, project="own")
    assert askable(high, [mine, others], {}) == [mine, others]
    assert askable(high, [mine, others], {}, asks_others=False) == [mine]


def test_a_run_is_asked_for_nothing_before_it_has_trained_for_as_long_as_it_is_spared() -> None:
    old, young = (
        replace(holder(name, "x", project="else"), trained_s=at) for name, at in (("old", 600.0), ("young", 599.0))
    )
    assert askable(HIGH, [old, young], {}) == [old, young]
    assert askable(HIGH, [old, young], {}, spared_s=600) == [old]
    standings = {"own": Standing(guaranteed=2), "else": Standing(held=1.0)}
    owed = Request("owed", 1, 1, project="own")
    assert askable(owed, [old, young], standings, spared_s=600) == [old], "its slots are lent, and no other's count"


def test_slots_that_are_lent_are_taken_back_the_youngest_first_and_nobody_loses_what_is_guaranteed() -> None:
    lent = [holder(f"lent-{number}", "x", project="else") for number in range(3)]
    owed = Request("owed", 1, 1, project="own")
    standings = {"own": Standing(held=1.0, guaranteed=2), "else": Standing(held=3.0, guaranteed=1)}
    assert askable(owed, lent, standings) == lent[1:]
    assert askable(owed, lent, {**standings, "own": Standing(held=2.0, guaranteed=2)}) == []
    assert askable(owed, [holder("own", "x", project="own")], standings) == []

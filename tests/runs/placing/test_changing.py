"""Whether an elastic run changes its nodes, and who makes room for whom: tables of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runs.placing.changing import Change, Training, change_of
from runs.placing.fitting import Placed, Request, Room, Waiting
from runs.placing.policies import Standing
from runs.placing.preempting import Concession, SlotHolder, askable, make_room
from runs.placing.scheduling import place
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


HIGH = Request("high", 1, 1, priority=75)


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

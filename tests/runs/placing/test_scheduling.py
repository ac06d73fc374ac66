"""Placing is a pure function: a table of cases."""

from __future__ import annotations

import pytest

from runs.placing.fitting import DividedSlot, Part, Placed, Request, Room, Waiting
from runs.placing.scheduling import place


def room(name: str, slots: int = 2, *, free: int | None = None, **changes: object) -> Room:
    indexes = tuple(range(slots - (slots if free is None else free), slots))
    return Room(node=name, name=name, num_slots=slots, free=indexes, **changes)  # type: ignore[arg-type]


def one(request: Request, *rooms: Room) -> Placed | Waiting:
    return place("lab", [request], rooms)[0]


def sentence(answer: Placed | Waiting) -> str:
    assert isinstance(answer, Waiting)
    return answer.sentence


def nodes_of(answer: Placed | Waiting) -> list[str]:
    assert isinstance(answer, Placed)
    return [part.node for part in answer.parts]


def test_a_gang_gets_all_its_nodes_at_once() -> None:
    answer = one(Request("a", 2, 1), room("x"), room("y"))
    assert answer == Placed("a", "cpu", (Part("x", (0,)), Part("y", (0,))))


def test_a_run_takes_free_slots_only() -> None:
    answer = one(Request("a", 1, 1), room("x", 3, free=1))
    assert answer == Placed("a", "cpu", (Part("x", (2,)),))


def test_a_run_goes_where_it_leaves_the_least_unused() -> None:
    assert nodes_of(one(Request("a", 1, 1), room("large", 8), room("small", 2))) == ["small"]


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [
        ([room("idle", 4), room("used", 8, free=6)], "used"),  # the idle one would be partly used, too
        ([room("used", 8, free=6), room("full-then", 8, free=2)], "full-then"),
        ([room("used", 8, free=3), room("fits", 2)], "fits"),  # one is partly used either way: the smaller rest
        ([room("idle", 4), room("fits", 2)], "fits"),
        ([room("large", 8), room("small", 4)], "small"),
    ],
)
def test_the_fewest_nodes_are_partly_used_then(rooms: list[Room], expected: str) -> None:
    assert nodes_of(one(Request("a", 1, 2), *rooms)) == [expected]
    assert nodes_of(one(Request("a", 1, 2), *reversed(rooms))) == [expected]


def test_two_runs_share_what_is_there() -> None:
    answers = place("lab", [Request("a", 1, 2), Request("b", 1, 2)], [room("x"), room("y")])
    assert [nodes_of(answer) for answer in answers] == [["x"], ["y"]]


def test_a_node_below_the_clusters_sandbox_level_gets_nothing_and_is_named() -> None:
    assert nodes_of(one(Request("a", 1, 1), room("low", is_exposed=True), room("safe"))) == ["safe"]
    words = sentence(one(Request("a", 1, 1), room("low", is_exposed=True)))
    assert "low is below the sandbox level that the cluster asks for" in words


def test_a_run_in_a_container_passes_over_nodes_without_podman() -> None:
    rooms = [room("able"), room("bare", 1, runs_containers=False)]
    assert nodes_of(one(Request("a", 1, 1, in_container=True), *rooms)) == ["able"]
    assert nodes_of(one(Request("a", 1, 1), *rooms)) == ["bare"], "it is the smaller one"


def test_a_run_in_a_container_waits_for_a_busy_node_with_podman_and_names_the_others() -> None:
    rooms = [room("able", free=0), room("bare", runs_containers=False)]
    answer = one(Request("a", 1, 1, in_container=True), *rooms)
    assert sentence(answer) == (
        "Waiting for 1 more CPU slot on cluster lab: 0 of 2 free; bare is without Podman, which its container needs."
    )
    assert isinstance(answer, Waiting) and answer.has_claim


def test_a_run_whose_container_no_nodes_can_hold_keeps_nobody_waiting() -> None:
    rooms = [room("able"), room("bare", runs_containers=False), room("plain", runs_containers=False)]
    answers = place("lab", [Request("a", 2, 1, in_container=True), Request("b", 2, 1)], rooms)
    assert sentence(answers[0]) == (
        "Waiting for nodes that run containers on cluster lab: without Podman are bare and plain, "
        "and the rest cannot hold it."
    )
    assert nodes_of(answers[1]) == ["able", "bare"]
    alone = one(Request("a", 1, 1, in_container=True), *rooms[1:])
    assert sentence(alone) == "Waiting for nodes that run containers on cluster lab: none of its nodes has Podman."


def test_auto_takes_gpus_where_there_are_enough() -> None:
    rooms = [room("cpu-1"), room("gpu-1", accelerator="gpu"), room("cpu-2")]
    assert nodes_of(one(Request("a", 1, 1), *rooms)) == ["gpu-1"]
    assert nodes_of(one(Request("a", 2, 1), *rooms)) == ["cpu-1", "cpu-2"]  # never a mixture


def test_a_named_accelerator_is_kept_to() -> None:
    rooms = [room("c"), room("g", accelerator="gpu")]
    assert nodes_of(one(Request("a", 1, 1, "cpu"), *rooms)) == ["c"]
    assert nodes_of(one(Request("a", 1, 1, "gpu"), *rooms)) == ["g"]


def test_nothing_passes_a_run_that_waits() -> None:
    answers = place("lab", [Request("big", 2, 2), Request("small", 1, 1)], [room("x"), room("y", free=0)])
    assert sentence(answers[0]) == "Waiting for 2 more CPU slots on cluster lab: 2 of 4 free."
    assert sentence(answers[1]) == (
        "Waiting its turn on cluster lab: one run is ahead of yours, and needs 2 nodes with 2 slots each."
    )


def test_a_run_that_no_registered_node_could_hold_stops_nobody() -> None:
    answers = place("lab", [Request("huge", 1, 9), Request("small", 1, 1)], [room("x")])
    assert sentence(answers[0]).startswith(
        "Waiting for larger or more nodes: cluster lab has 1 node of at most 2 slots"
    )
    assert nodes_of(answers[1]) == ["x"]


def test_a_run_that_only_offline_nodes_could_hold_still_keeps_its_place() -> None:
    answers = place("lab", [Request("a", 1, 4), Request("b", 1, 1)], [room("x", 4, is_in_contact=False), room("y", 2)])
    assert all(isinstance(answer, Waiting) for answer in answers)


@pytest.mark.parametrize(
    ("request_", "rooms", "expected"),
    [
        (Request("a", 1, 1), [], "Waiting for a node: cluster lab has none yet."),
        (
            Request("a", 2, 4, "gpu"),
            [room("g1", 4, free=4, accelerator="gpu"), room("g2", 4, free=2, accelerator="gpu")],
            "Waiting for 2 more GPUs on cluster lab: 6 of 8 free.",
        ),
        (
            Request("a", 1, 1),
            [room("x", is_in_contact=False), room("y", is_in_contact=False)],
            "Waiting for 1 more CPU slot on cluster lab: 0 of 0 free; x and y are out of contact.",
        ),
        (
            Request("a", 1, 1),
            [room("x", is_draining=True), room("y", free=0)],
            "Waiting for 1 more CPU slot on cluster lab: 0 of 2 free; x is draining.",
        ),
        (
            Request("a", 1, 2),
            [room("x", free=1), room("y", free=1)],
            "Waiting for 1 more node with 2 free CPU slots on cluster lab: 2 of 4 free.",
        ),
        (
            Request("a", 1, 1, "gpu"),
            [room("x")],
            "Waiting for larger or more nodes: cluster lab has 0 nodes with GPU slots of at most 0 slots, "
            "this run needs 1 node with 1 slot each.",
        ),
    ],
)
def test_it_says_in_words_why_a_run_waits(request_: Request, rooms: list[Room], expected: str) -> None:
    assert sentence(one(request_, *rooms)) == expected


def test_a_long_queue_has_few_reasons_so_that_few_change_when_it_moves() -> None:
    """Who waits behind many learns how many, exactly where that matters; what is far ahead changes no reason."""
    requests = [Request(str(number), 2, 2) for number in range(10_000)]
    answers = place("lab", requests, [room("x"), room("y", free=0)])
    assert sentence(answers[7]) == (
        "Waiting its turn on cluster lab: 7 runs are ahead of yours, and the first needs 2 nodes with 2 slots each."
    )
    assert sentence(answers[9_999]) == "Waiting its turn on cluster lab: more than 5,000 runs are ahead of yours."
    moved = place("lab", requests[1:], [room("x"), room("y", free=0)])
    changed = [old for old, new in zip(answers[1:], moved, strict=True) if sentence(old) != sentence(new)]
    assert len(changed) < 120


def test_who_can_never_start_is_not_ahead_of_anybody() -> None:
    requests = [Request("big", 2, 2), Request("huge", 1, 9), Request("small", 1, 1)]
    answers = place("lab", requests, [room("x"), room("y", free=0)])
    assert "one run is ahead of yours" in sentence(answers[2])


def test_slots_of_two_kinds_are_not_added_up() -> None:
    rooms = [room("c", free=1), room("g", free=1, accelerator="gpu")]
    assert sentence(one(Request("a", 2, 1), *rooms, room("d", free=0))).startswith(
        "Waiting for 1 more node with 1 free"
    )


def test_a_run_that_is_restarted_goes_to_the_nodes_that_have_its_working_folder() -> None:
    rooms = [room("x"), room("y"), room("z", 8)]
    assert nodes_of(one(Request("a", 1, 1), *rooms)) == ["x"]
    assert nodes_of(one(Request("a", 1, 1, before=frozenset({"z"})), *rooms)) == ["z"]
    assert nodes_of(one(Request("a", 2, 1, before=frozenset({"z"})), *rooms)) == ["x", "z"]
    full = room("z", 8, free=0)
    assert nodes_of(one(Request("a", 1, 1, before=frozenset({"z"})), room("x"), full)) == ["x"]


def test_a_node_that_is_excluded_is_never_taken_and_one_that_is_avoided_only_last() -> None:
    avoiding = Request("a", 1, 1, avoided=frozenset({"x"}), before=frozenset({"x"}))
    assert nodes_of(one(avoiding, room("x"), room("y"))) == ["y"]
    assert nodes_of(one(avoiding, room("x"), room("y", free=0))) == ["x"]
    excluding = Request("a", 1, 1, excluded=frozenset({"x"}))
    assert nodes_of(one(excluding, room("x"), room("y"))) == ["y"]
    assert sentence(one(excluding, room("x"), room("y", free=0))) == (
        "Waiting for 1 more CPU slot on cluster lab: 0 of 2 free; x is left out."
    )


def test_who_waits_for_an_excluded_node_alone_keeps_nobody_from_the_others() -> None:
    requests = [Request("a", 2, 1, excluded=frozenset({"x"})), Request("b", 1, 1)]
    first, second = place("lab", requests, [room("x"), room("y")])
    assert sentence(first) == "Waiting for other nodes on cluster lab: x is left out, and the rest cannot hold it."
    assert isinstance(second, Placed)


def test_small_runs_share_a_slot_and_others_take_whole_ones() -> None:
    small = [Request(name, 1, 1, num_shares=2) for name in "abc"]
    answers = place("lab", [*small, Request("d", 1, 1)], [room("x", 3)])
    shares = [(one.slots, one.share, one.num_shares) for answer in answers for one in answer.parts]  # type: ignore[union-attr]
    assert shares == [((0,), 0, 2), ((0,), 1, 2), ((1,), 0, 2), ((2,), 0, 1)]


def test_a_divided_slot_takes_runs_with_the_same_share_alone() -> None:
    half = room("x", 2, free=0, divided={0: DividedSlot(2, (1,)), 1: DividedSlot(4, ())})
    answer = one(Request("a", 1, 1, num_shares=2), half)
    assert answer == Placed("a", "cpu", (Part("x", (0,), 1, 2),))
    assert sentence(one(Request("a", 1, 1, num_shares=4), half)).startswith("Waiting for 1 more CPU slot")
    assert sentence(one(Request("a", 1, 1), half)).startswith("Waiting for 1 more CPU slot")


def test_a_node_whose_warm_process_is_away_comes_behind_one_that_begins_at_once() -> None:
    rooms = [room("a", is_cold=True), room("b")]
    (answer,) = place("local", [Request("run", 1, 1)], rooms)
    assert isinstance(answer, Placed) and [part.node for part in answer.parts] == ["b"]
    (again,) = place("local", [Request("run", 1, 1, before=frozenset({"a"}))], rooms)
    assert isinstance(again, Placed) and [part.node for part in again.parts] == ["a"], "its working folder lies there"
    (share,) = place("local", [Request("run", 1, 1, num_shares=2)], rooms)
    assert isinstance(share, Placed) and [part.node for part in share.parts] == ["b"]

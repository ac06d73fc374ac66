"""How many machines that stay a cluster asks for and gives back: a table of cases."""

from __future__ import annotations

from typing import Any

import pytest

from runs.placing.fitting import Request, Room
from runs.placing.pools import PoolRules, decide, pause_s
from tests.runs.placing.test_scheduling import room

RULES = PoolRules(least=0, most=3, idle_s=60.0)
OFFERS = [room(f"offer-{number}", 2) for number in range(3)]


def wants(name: str, nodes: int = 1, slots: int = 2, **changes: Any) -> Request:
    return Request(name, nodes, slots, **changes)


@pytest.mark.parametrize(
    ("requests", "rooms", "how", "num_asked", "sentence"),
    [
        ([], [], {}, 0, "0 of at most 3 nodes: no run waits for more."),
        ([wants("a")], [], {}, 1, "0 of at most 3 nodes: 1 run waits for 2 slots."),
        ([wants("a", slots=1), wants("b", slots=1)], [], {}, 1, "0 of at most 3 nodes: 2 runs wait for 2 slots."),
        (
            [wants("a"), wants("b")], [], {"num_joining": 1}, 1,
            "0 of at most 3 nodes, 1 on the way: 2 runs wait for 4 slots.",
        ),
        ([wants("a")], [], {"num_joining": 1}, 0, "0 of at most 3 nodes, 1 on the way: 1 run waits for 2 slots."),
        (
            [wants(str(one)) for one in range(9)], [room("x", 2, free=0)], {}, 2,
            "1 of at most 3 nodes: 2 runs wait for 4 slots.",
        ),
        ([wants("a")], [room("x", 2)], {"idle_s": {"x": 5.0}}, 0, "1 of at most 3 nodes: no run waits for more."),
        ([wants("too wide", 4)], [], {}, 0, "0 of at most 3 nodes: no run waits for more."),
        ([wants("too large", 1, 4)], [], {}, 0, "0 of at most 3 nodes: no run waits for more."),
        ([wants("elastic", 1, node_counts=(1, 2, 3))], [], {}, 1, "0 of at most 3 nodes: 1 run waits for 2 slots."),
        (
            [wants("a")], [], {"paused_s": 12.0, "problem": "No quota."}, 0,
            "0 of at most 3 nodes: 1 run waits for 2 slots; the last ask failed, the next is in 12 s: No quota.",
        ),
    ],
)  # fmt: skip
def test_it_asks_for_what_placing_would_use_and_never_for_more_than_the_most(
    requests: list[Request], rooms: list[Room], how: dict[str, Any], num_asked: int, sentence: str
) -> None:
    found = decide(RULES, requests, rooms, OFFERS, how.pop("idle_s", {}), **how)
    assert (found.num_asked, found.sentence, found.given_back) == (num_asked, sentence, ())


@pytest.mark.parametrize(
    ("least", "idle_s", "given_back"),
    [
        (0, {"x": 59.0, "y": 10.0}, ()),
        (0, {"x": 60.0, "y": 10.0}, ("x",)),
        (0, {"x": 60.0, "y": 70.0}, ("y", "x")),
        (1, {"x": 60.0, "y": 70.0}, ("y",)),
        (2, {"x": 60.0, "y": 70.0}, ()),
    ],
)
def test_it_gives_back_who_was_idle_for_long_and_keeps_the_least(
    least: int, idle_s: dict[str, float], given_back: tuple[str, ...]
) -> None:
    rooms = [room("x", 2), room("y", 2)]
    found = decide(RULES._replace(least=least), [], rooms, OFFERS, idle_s)
    assert found.given_back == given_back and found.num_asked == 0
    taken = decide(RULES, [wants("a"), wants("b")], rooms, OFFERS, idle_s)
    assert taken.given_back == (), "runs are about to have both"


def test_the_least_is_there_without_a_run_and_a_pool_that_was_switched_off_gives_all_back() -> None:
    assert decide(RULES._replace(least=2), [], [], OFFERS, {}).num_asked == 2
    assert decide(RULES._replace(least=9), [], [], OFFERS, {}).num_asked == 3
    off = PoolRules(2, 0, 0.0)
    assert decide(off, [wants("a", 2)], [room("x", 2)], OFFERS, {"x": 0.0}).given_back == ("x",)


def test_the_pause_after_asks_that_failed_doubles_up_to_ten_minutes() -> None:
    assert [pause_s(number, 0.0) for number in (0, 1, 2, 3, 20)] == [0.0, 15.0, 30.0, 60.0, 600.0]
    assert pause_s(2, 30.0) == 0.0

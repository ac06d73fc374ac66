"""Runs that pass one that waits for room: only where they do not delay it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runs.placing.fitting import GPU, Placed, Request, Room
from runs.placing.scheduling import place, reserve


def room(name: str, slots: int = 4, *, free: int = 0, ends: float | None = None) -> Room:
    """A node whose first ``free`` slots nobody holds, and whose others end in so many seconds."""
    held = range(free, slots)
    known = {} if ends is None else dict.fromkeys(held, ends)
    return Room(name, name, slots, tuple(range(free)), ends=known)


def started(requests: list[Request], rooms: list[Room]) -> list[str]:
    return [one.run for one in place("lab", requests, rooms) if isinstance(one, Placed)]


WIDE = Request("wide", 2, 4)
ROOMS = [room("x", free=2, ends=100.0), room("y", ends=60.0), room("z", free=1, ends=500.0)]


def test_the_reservation_is_where_enough_slots_come_free_first() -> None:
    found = reserve(WIDE, ROOMS, {one.node: one.free for one in ROOMS}, [])
    assert found is not None and found.in_s == 100.0 and found.spare == {"x": 0, "y": 0}


def test_what_is_over_before_passes_and_what_is_not_takes_other_nodes() -> None:
    short, long = Request("short", 1, 2, lasts_s=90.0), Request("long", 1, 2, lasts_s=110.0)
    assert started([WIDE, short], ROOMS) == ["short"]
    assert started([WIDE, long], ROOMS) == []
    assert started([WIDE, replace(long, slots_per_node=1)], ROOMS) == ["long"], "on z, which the wide one does not need"
    unknown = [Request(f"unknown-{number}", 1, 1) for number in range(3)]
    assert started([WIDE, *unknown], ROOMS) == ["unknown-0"], "z has one free slot"


def test_slots_that_the_first_leaves_over_are_given_once() -> None:
    narrow = Request("narrow", 1, 3)
    rooms = [room("x", free=2, ends=100.0)]
    assert started([narrow, Request("a", 1, 1), Request("b", 1, 1)], rooms) == ["a"]


@pytest.mark.parametrize("rooms", [[room("x", free=2)], [room("x", free=3, ends=10.0), room("y")]])
def test_where_nobody_can_say_when_slots_come_free_nobody_passes(rooms: list[Room]) -> None:
    assert started([Request("wide", len(rooms), 4), Request("short", 1, 1, lasts_s=1.0)], rooms) == []


def test_a_run_that_starts_in_the_round_counts_with_its_own_end() -> None:
    first = Request("first", 1, 4, lasts_s=30.0)
    rooms = [room("x", free=4), room("y", free=1, ends=50.0)]
    assert started([first, WIDE, Request("short", 1, 1, lasts_s=49.0)], rooms) == ["first", "short"]
    assert started([first, WIDE, Request("long", 1, 1, lasts_s=51.0)], rooms) == ["first"]
    assert started([replace(first, lasts_s=None), WIDE, Request("short", 1, 1, lasts_s=1.0)], rooms) == ["first"]


def test_another_kind_of_node_is_not_waited_for() -> None:
    gpus = replace(room("g", free=1), accelerator=GPU)
    wide = replace(WIDE, num_nodes=1, accelerator="cpu")
    assert started([wide, Request("gpu", 1, 1, accelerator=GPU)], [room("x", free=1, ends=9.0), gpus]) == ["gpu"]

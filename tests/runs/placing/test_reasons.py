"""Every reason to wait names what keeps the run: without it the run starts. Made up queues, checked one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from runs.placing.fitting import CPU, Placed, Request, Room, Waiting
from runs.placing.scheduling import place

SEEDS = range(40)
SLOTS = 4
MOST = 4  # obstacles of one run, one behind the other

World = tuple[list[Request], list[Room]]


def made_up(random: Random) -> World:
    rooms = [
        Room(
            f"n{number}", f"node-{number}", SLOTS, tuple(range(random.randint(0, SLOTS))), CPU,
            is_in_contact=random.random() > 0.1, is_draining=random.random() < 0.1,
            runs_containers=random.random() > 0.2,
        )
        for number in range(random.randint(0, 6))
    ]  # fmt: skip
    requests = [
        Request(
            f"r{number}", random.choice((1, 1, 1, 2, 3)), random.choice((1, 2, 4, 6)), CPU,
            in_container=random.random() < 0.1,
            excluded=frozenset(random.sample(("n0", "n1"), random.choice((0, 0, 1)))),
        )
        for number in range(6)
    ]  # fmt: skip
    return requests, rooms


def alone(request: Request, world: World) -> World:
    """Return the world with what starts before the run as held, and without what waits."""
    requests, rooms = world
    taken = {
        (part.node, slot)
        for answer in place("x", requests[: requests.index(request)], rooms)
        if isinstance(answer, Placed)
        for part in answer.parts
        for slot in part.slots
    }
    left = [replace(room, free=tuple(one for one in room.free if (room.node, one) not in taken)) for room in rooms]
    return [request], left


def without(sentence: str, own: Request, rooms: list[Room]) -> list[Room]:
    """Return the rooms without what the sentence names. Raises LookupError where it is none that anybody knows."""
    if found := re.search(r"Waiting for (\d+) more (?:CPU slots?) on", sentence):
        return freed(rooms, own, int(found.group(1)))
    if found := re.search(r"Waiting for (\d+) more nodes? with (\d+) free CPU slots?", sentence):
        number, each = int(found.group(1)), int(found.group(2))
        lacking = [room for room in rooms if may_have(own, room) and len(room.free) < each][:number]
        wide = {room.node: replace(room, free=tuple(range(each))) for room in lacking}
        more = [Room(f"more{place}", "z", SLOTS, tuple(range(each)), CPU) for place in range(number - len(wide))]
        return [wide.get(room.node, room) for room in rooms] + more
    if re.search(r"has none yet|larger or more nodes|nodes that run containers|Waiting for other nodes", sentence):
        added = [
            Room(f"new{place}", "z", own.slots_per_node, tuple(range(own.slots_per_node)), CPU)
            for place in range(own.num_nodes)
        ]
        return [*rooms, *added]
    raise LookupError(sentence)


def may_have(request: Request, room: Room) -> bool:
    return room.is_usable and room.node not in request.excluded and (room.runs_containers or not request.in_container)


def freed(rooms: list[Room], request: Request, number: int) -> list[Room]:
    """Free so many slots of nodes that the run may have, where the most are free; else of a new node."""
    found = {room.node: room for room in rooms}
    for room in sorted(rooms, key=lambda one: -len(one.free)):
        if may_have(request, room):
            more = min(number, room.num_slots - len(room.free))
            found[room.node] = replace(room, free=tuple(range(len(room.free) + more)))
            number -= more
    if number:
        found["extra"] = Room("extra", "z", SLOTS, tuple(range(number)), CPU)
    return list(found.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_starts_once_what_its_reasons_name_is_away(seed: int) -> None:
    world = made_up(Random(seed))
    for request, first in zip(world[0], place("x", *world), strict=True):
        answer, told = first, []
        (_, rooms) = own = alone(request, world)
        if isinstance(first, Waiting) and "ahead of yours" in first.sentence:
            (answer,) = place("x", *own)
            assert "ahead of yours" not in getattr(answer, "sentence", ""), "who is ahead is away"
        while isinstance(answer, Waiting) and len(told) < MOST:
            told.append(answer.sentence)
            rooms = without(answer.sentence, request, rooms)
            (answer,) = place("x", [request], rooms)
        assert isinstance(answer, Placed), told


@pytest.mark.parametrize("seed", SEEDS)
def test_with_one_slot_less_than_it_names_it_still_waits(seed: int) -> None:
    world = made_up(Random(seed))
    for request in world[0]:
        _, rooms = alone(request, world)
        (answer,) = place("x", [request], rooms)
        if isinstance(answer, Waiting) and (
            found := re.search(r"Waiting for (\d+) more CPU slots? on", answer.sentence)
        ):
            (again,) = place("x", [request], freed(rooms, request, int(found.group(1)) - 1))
            assert isinstance(again, Waiting)


def test_as_many_runs_are_ahead_as_it_says() -> None:
    num_checked = 0
    for seed in SEEDS:
        requests, rooms = made_up(Random(seed))
        num_ahead = 0
        for answer in place("x", requests, rooms):
            if isinstance(answer, Waiting) and "ahead of yours" in answer.sentence:
                words = "one run is" if num_ahead == 1 else f"{num_ahead} runs are"
                assert f"{words} ahead of yours" in answer.sentence
                num_checked += 1
            num_ahead += isinstance(answer, Waiting) and answer.has_claim
    assert num_checked > 30

"""Every reason to wait names what keeps the run: without it the run starts. Made up queues, checked one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from runs.placing.admission import Part, Terms, refused
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


ENDS = (10.0, 100.0, 1000.0)  # seconds until a held slot comes free, and for which a run goes on


def busy(random: Random) -> World:
    """A world in which it is known how long slots are held, and runs go on: some may pass others."""
    requests, rooms = made_up(random)
    requests = [replace(one, lasts_s=random.choice((*ENDS, None))) for one in requests]
    held = [set(range(room.num_slots)) - set(room.free) for room in rooms]
    ends = [{slot: random.choice(ENDS) for slot in slots} for slots in held]
    return requests, [replace(room, ends=one) for room, one in zip(rooms, ends, strict=True)]


def test_a_run_that_passes_others_does_not_delay_the_first_that_waits() -> None:
    """Where the first that waits would start without it, it starts at that moment with it, too."""
    num_passed = 0
    for seed in range(200):
        requests, rooms = busy(Random(seed))
        answers = place("x", requests, rooms)
        first = next((n for n, one in enumerate(answers) if isinstance(one, Waiting) and one.has_claim), None)
        passed = [one for one in answers[(first or 0) + 1 :] if first is not None and isinstance(one, Placed)]
        if first is None or not passed:
            continue
        before = [one for one in answers[:first] if isinstance(one, Placed)]
        lasts = {one.run: one.lasts_s for one in requests}
        start = starts_in(requests[first], rooms, before, lasts)
        assert start is not None and starts_in(requests[first], rooms, [*before, *passed], lasts) == start, seed
        num_passed += len(passed)
    assert num_passed > 20


def starts_in(
    request: Request, rooms: list[Room], placed: list[Placed], lasts: dict[str, float | None]
) -> float | None:
    """Return in how many seconds the run fits, by trying each moment at which slots come free."""
    taken = {(part.node, slot): lasts[one.run] for one in placed for part in one.parts for slot in part.slots}
    for at in (0.0, *ENDS):
        free = [
            tuple(
                slot
                for slot in range(room.num_slots)
                if ((until := taken.get((room.node, slot), 0.0)) is not None and until <= at)
                and (slot in room.free or room.ends.get(slot, 1e9) <= at)
            )
            for room in rooms
        ]
        emptied = [replace(room, free=slots, ends={}) for room, slots in zip(rooms, free, strict=True)]
        (answer,) = place("x", [request], emptied)
        if isinstance(answer, Placed):
            return at
    return None


def limited(random: Random) -> tuple[list[Request], Terms]:
    """Requests of two projects and two people, with limits and what is used of them."""
    requests = [
        replace(one, project=random.choice(("mine", "theirs")), person=random.choice((1, 2)))
        for one in made_up(random)[0]
    ]
    part = Part(
        slots=random.choice((None, 2, 8)), held=random.choice((0.0, 1.0, 8.0)),
        runs=random.choice((None, 1, 3)), num_runs=random.choice((0, 1, 3)),
        per_person=random.choice((None, 2, 6)), by_person={1: random.choice((0.0, 2.0))},
        slot_hours=random.choice((None, None, 5.0)), used_hours=random.choice((4.0, 5.0)),
        budget=random.choice((None, None, 9.0)), spent=random.choice((8.0, 9.0)),
    )  # fmt: skip
    return requests, Terms("x", frozenset(("mine", "theirs")), frozenset(), {}, {}, {"mine": part})


def loosened(words: str, part: Part, one: Request) -> Part:
    """Return the limits without the one that the sentence names. Raises LookupError where it names none."""
    for name, start in {
        "slots": "Project mine may hold ", "runs": "Project mine may have ", "per_person": "Each person may hold ",
        "slot_hours": "Project mine has used ", "budget": "Project mine has spent ",
    }.items():  # fmt: skip
        if words.startswith(start):
            return replace(part, **{name: None})
    raise LookupError(words)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_may_start_once_the_limits_that_its_reasons_name_are_away(seed: int) -> None:
    requests, terms = limited(Random(seed))
    for one in requests:
        part, told = terms.parts["mine"], []
        while why := refused([one], replace(terms, parts={"mine": part})).get(one.run):
            assert one.project == "mine", "who has no limit is never refused"
            told.append(why.sentence)
            part = loosened(why.sentence, part, one)
        assert len(told) == len(set(told))


def test_numbers_of_limits_are_exact() -> None:
    """With what a sentence says is missing, and no more, the run starts."""
    num_checked = 0
    for seed in SEEDS:
        requests, terms = limited(Random(seed))
        for one in requests:
            why = refused([one], terms).get(one.run)
            if found := re.fullmatch(
                r"Project mine may hold (\d+) slots? at once: it holds (\d+), and .* needs (\d+)\.",
                why.sentence if why else "",
            ):
                _, has, needs = map(int, found.groups())
                enough = replace(terms.parts["mine"], slots=has + needs, runs=None, per_person=None)
                assert not refused([one], replace(terms, parts={"mine": enough}))
                assert refused([one], replace(terms, parts={"mine": replace(enough, slots=has + needs - 1)}))
                num_checked += 1
    assert num_checked > 10

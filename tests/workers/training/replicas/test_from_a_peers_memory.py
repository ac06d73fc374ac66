from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import after
from tests.workers.training.ranks import facts, tiny_spec, train_on
from tests.workers.training.replicas.memory import MemoryYard, told
from tests.workers.training.replicas.test_from_own_memory import flip_a_bit
from workers.training.checkpoints.store import find

EVERY_2 = {"every_steps": 100, "replicate_every_steps": 2}


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[MemoryYard]:
    one = MemoryYard(tmp_path, "node-a", "node-b")
    one.connect()
    yield one
    one.close()


@pytest.mark.parametrize(
    ("lost", "changes"),
    [
        pytest.param("node-a", {}, id="node-a-ddp"),
        pytest.param("node-b", {"parallel": {"shard": 2}}, id="node-b-shard"),
        pytest.param("node-b", {}, id="node-b-ddp", marks=pytest.mark.extended),
        pytest.param("node-a", {"parallel": {"shard": 2}}, id="node-a-shard", marks=pytest.mark.extended),
    ],
)
def test_a_lost_node_costs_no_read_of_storage(lost: str, changes: dict[str, object], yard: MemoryYard) -> None:
    """Its memory is gone with it; the next attempt is on a node more, which has nothing."""
    whole = train_on(2, tiny_spec(world=2, steps=9, schedule="constant", **changes))[0]
    first = yard.go(steps=5, checkpoint=EVERY_2, **changes)[0]
    assert facts(first, "in-memory")["num_copies"] == 2
    shutil.rmtree(yard.root / lost)
    survivor = "node-b" if lost == "node-a" else "node-a"
    yard.nodes = (survivor, "node-c")
    second = yard.go(steps=9, checkpoint=EVERY_2, **changes)[0]
    assert told(second)[0] == ("restored", 4, survivor)
    assert after(second, "train/loss", 0) == after(whole, "train/loss", 4)


def test_a_damaged_part_is_taken_from_the_other_node_and_reported(yard: MemoryYard) -> None:
    yard.go(steps=5, checkpoint=EVERY_2)
    flip_a_bit(yard.memory("node-b").own / "step-4.fence-1" / "rank-1.safetensors")
    assert told(yard.go(steps=7, checkpoint=EVERY_2)[0])[:2] == [
        ("invalid", 4, "node-b"),
        ("restored", 4, "node-a and node-b"),
    ]


def test_both_copies_damaged_lead_to_storage(yard: MemoryYard) -> None:
    yard.go(steps=5, checkpoint={"every_steps": 3, "replicate_every_steps": 2})
    flip_a_bit(yard.memory("node-b").own / "step-4.fence-1" / "rank-1.safetensors")
    flip_a_bit(yard.memory("node-a").peer / "step-4.fence-1" / "rank-1.safetensors")
    reported = told(yard.go(steps=5, checkpoint=EVERY_2, restore=yard.offers()[1:])[0])
    assert {one[:2] for one in reported[:2]} == {("invalid", 4)}
    assert reported[2] == ("restored", 3, "")


def test_each_node_keeps_one_state_of_its_own_and_one_of_the_other(yard: MemoryYard) -> None:
    yard.go(steps=9, checkpoint=EVERY_2)
    for node in yard.nodes:
        memory = yard.memory(node)
        assert [mark.step for mark in find(memory.own)] == [mark.step for mark in find(memory.peer)] == [8]


def test_a_node_that_receives_nothing_costs_a_line_and_no_state(yard: MemoryYard) -> None:
    yard.receivers["node-b"].close()
    points = yard.go(steps=7, checkpoint=EVERY_2)[0]
    off = [one for one in told(points) if one[0] == "off"]
    assert off == [("off", 2, "node-a")]
    assert facts(points, "in-memory")["num_copies"] == 1
    assert told(yard.go(steps=9, checkpoint=EVERY_2)[0])[0] == ("restored", 6, "node-a and node-b")


def test_a_peer_without_room_says_so_with_numbers(tmp_path: Path) -> None:
    yard = MemoryYard(tmp_path, "node-a", "node-b")
    yard.limit_bytes = 1000
    yard.connect()
    yard.limit_bytes = 1 << 30
    try:
        points = yard.go(steps=5, checkpoint=EVERY_2)[0]
    finally:
        yard.close()
    assert [one for one in told(points) if one[0] == "off"] == [("off", 2, "node-a")]

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import after
from tests.workers.training.ranks import facts, notes, tiny_spec, train_on
from tests.workers.training.replicas.memory import MemoryYard, told
from workers.training.checkpoints.store import Mark

EVERY_2 = {"every_steps": 100, "replicate_every_steps": 2}
WITH_OLDER = {"every_steps": 3, "replicate_every_steps": 2}


@pytest.fixture
def yard(tmp_path: Path) -> MemoryYard:
    return MemoryYard(tmp_path, "node-a", "node-b")


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.extended),
        {"parallel": {"shard": 2}},
        pytest.param({"parallel": {"compression": "powersgd"}}, marks=pytest.mark.extended),
    ],
    ids=["ddp", "shard", "powersgd"],
)
def test_a_training_goes_on_from_memory_bit_for_bit(changes: dict[str, object], yard: MemoryYard) -> None:
    whole = train_on(2, tiny_spec(world=2, steps=9, schedule="constant", **changes))[0]
    first = yard.go(steps=5, checkpoint=EVERY_2, **changes)[0]
    assert told(first) == [("saved", 5, "")]
    assert facts(first, "in-memory")["step"] in (2, 4)  # reported now and then
    second = yard.go(steps=9, checkpoint=EVERY_2, **changes)[0]
    assert told(second)[0] == ("restored", 4, "node-a and node-b")
    assert after(second, "train/loss", 0) == after(whole, "train/loss", 4)


@pytest.mark.extended
def test_one_whole_state_is_kept_and_that_of_the_attempt_before_goes(yard: MemoryYard) -> None:
    yard.go(steps=9, checkpoint=EVERY_2)
    assert yard.states("node-a") == yard.states("node-b") == [Mark(fence=1, step=8)]
    yard.go(steps=11, checkpoint=EVERY_2)
    assert yard.states("node-a") == [Mark(fence=2, step=10)]
    names = sorted(path.name for path in yard.memory("node-a").buffers.iterdir())
    assert names == ["rank-0.fence-2.a", "rank-0.fence-2.n"], "the state, and the notes of the random state"


@pytest.mark.parametrize(("until", "restored"), [(4, [("restored", 4, "node-a and node-b")]), (3, [])])
def test_a_state_of_a_step_whose_records_never_came_is_not_used(
    until: int, restored: list[tuple[str, int | None, str]], yard: MemoryYard
) -> None:
    yard.go(steps=5, checkpoint=EVERY_2)
    yard.until = until
    assert [one for one in told(yard.go(steps=7, checkpoint=EVERY_2)[0]) if one[0] == "restored"] == restored


def test_no_state_is_kept_whose_points_are_not_in_the_spool(yard: MemoryYard) -> None:
    """With a full disk they are in the rank alone, and go with it: behind the state nobody would log them again."""
    yard.full_spool = 1
    first = yard.go(steps=5, checkpoint=EVERY_2)[0]
    [problem] = [note for note in notes(first) if note["state"] == "off"]
    assert problem["why"] == "rank 1: the spool does not take the points of its steps"
    yard.full_spool = None
    second = yard.go(steps=7, checkpoint=EVERY_2)[0]
    assert [state for state, _, _ in told(second)] == ["saved"], "it begins anew, and logs each step"
    assert len(after(second, "train/loss", 0)) == 7


def test_ranks_of_one_node_share_its_folder(tmp_path: Path) -> None:
    yard = MemoryYard(tmp_path, "node-a", "node-a")
    yard.go(steps=5, checkpoint=EVERY_2)
    assert told(yard.go(steps=7, checkpoint=EVERY_2)[0])[0] == ("restored", 4, "node-a")


def test_a_part_that_another_node_has_is_fetched(tmp_path: Path) -> None:
    """The second attempt is on a node more that has nothing; the parts of both others are on the first."""
    yard = MemoryYard(tmp_path, "node-a", "node-a")
    yard.go(steps=5, checkpoint=EVERY_2)
    yard.nodes = ("node-a", "node-c")
    assert told(yard.go(steps=7, checkpoint=EVERY_2)[0])[0] == ("restored", 4, "node-a")
    assert yard.states("node-c")


@pytest.mark.parametrize(
    "harm",
    [
        "lost",
        "flipped",
        *(pytest.param(one, marks=pytest.mark.extended) for one in ("short", "other version", "no manifest")),
    ],
)
def test_what_is_not_whole_is_not_used(harm: str, yard: MemoryYard) -> None:
    yard.go(steps=5, checkpoint=WITH_OLDER)
    names = {"node-a": "rank-0.safetensors", "node-b": "rank-1.safetensors"}
    for node, name in names.items():
        folder = yard.memory(node).own / "step-4.fence-1"
        manifest = folder / "manifest.json"
        if harm == "lost" and node == "node-b":
            shutil.rmtree(yard.root / node)
        elif harm == "flipped" and node == "node-b":
            flip_a_bit(folder / name)
        elif harm == "short" and node == "node-b":
            (folder / name).write_bytes((folder / name).read_bytes()[:-8])
        elif harm == "other version":
            document = json.loads(manifest.read_text())
            document.pop("sha256")
            document["version"] = 2
            from workers.training.checkpoints.manifest import digest_of

            manifest.write_text(json.dumps({"sha256": digest_of(document), **document}))
        elif harm == "no manifest":
            manifest.unlink()
    points = yard.go(steps=5, checkpoint=EVERY_2, restore=yard.offers()[1:])[0]
    reported = told(points)
    assert ("restored", 3, "") in reported, reported
    if harm != "no manifest":  # that one never was a state, as of ranks that died before it was whole
        assert reported[0][:2] == ("invalid", 4) and "node-" in reported[0][2]


def test_behind_a_pause_and_with_other_ranks_storage_is_read(yard: MemoryYard) -> None:
    yard.go(steps=5, checkpoint=EVERY_2)
    yard.above = None
    assert told(yard.go(steps=7, checkpoint=EVERY_2, restore=yard.offers())[0])[0] == ("restored", 5, "")
    yard.above, yard.nodes = 0, ("node-a",)
    assert told(yard.go(steps=9, checkpoint=EVERY_2, restore=yard.offers())[0])[0] == ("restored", 7, "")


@pytest.mark.extended
def test_the_newer_of_memory_and_storage_counts(yard: MemoryYard) -> None:
    yard.go(steps=5, checkpoint={"every_steps": 3, "replicate_every_steps": 2})
    newest, older = yard.offers()
    assert (newest["step"], older["step"]) == (5, 3)
    assert told(yard.go(steps=7, checkpoint=EVERY_2, restore=[older])[0])[0] == ("restored", 4, "node-a and node-b")


def test_what_does_not_fit_is_reported_once_and_training_goes_on(yard: MemoryYard) -> None:
    yard.limit_bytes = 1000
    points = yard.go(steps=7, checkpoint=EVERY_2)[0]
    assert [(state, step) for state, step, _ in told(points)] == [("off", 2), ("saved", 7)]
    off = [one for one in told(points) if one[0] == "off"]
    assert off == [("off", 2, "node-a")]
    assert not yard.states("node-a")


def test_auto_decides_by_what_a_state_costs(yard: MemoryYard) -> None:
    points = yard.go(steps=40, checkpoint={"every_steps": 100, "replicate_every_steps": "auto"})[0]
    assert facts(points, "in-memory")["step"] in (10, 20)
    assert told(points) == [("saved", 40, "")]

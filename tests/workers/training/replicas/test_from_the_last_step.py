"""A rank dies in mid-step: the others keep what they have, and the next attempt trains no step again."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.workers.training.checkpoints.yard import after
from tests.workers.training.replicas.memory import NOBODY, MemoryYard, told
from workers.replicas.folders import RunMemory
from workers.training.checkpoints.random_state import random_state
from workers.training.checkpoints.store import Mark
from workers.training.replicas import last

SELDOM = {"every_steps": 100, "replicate_every_steps": 50}


@pytest.fixture
def yard(tmp_path: Path) -> MemoryYard:
    return MemoryYard(tmp_path, "node-a", "node-b")


@pytest.mark.parametrize("dead", [0, 1])
def test_the_next_attempt_goes_on_behind_the_last_step_bit_for_bit(dead: int, yard: MemoryYard, tmp_path: Path) -> None:
    other = MemoryYard(tmp_path / "undisturbed", "node-a", "node-b")
    yard.dies, other.dies = (dead, 7), NOBODY
    whole = other.go(steps=9, checkpoint=SELDOM)
    with pytest.raises(RuntimeError):
        yard.go(steps=9, checkpoint=SELDOM)
    yard.dies = NOBODY
    second = yard.go(steps=9, checkpoint=SELDOM)
    assert told(second[0])[0] == ("restored", 6, f"node-{'ba'[dead]}")
    assert after(second[0], "train/loss", 0) == after(whole[0], "train/loss", 6)
    for rank in (0, 1):
        assert after(second[rank], "drawn", 0) == after(whole[rank], "drawn", 6)


def test_it_is_not_used_where_the_points_of_the_dead_rank_were_not_kept(yard: MemoryYard) -> None:
    yard.dies, yard.full_spool = (1, 7), 1
    with pytest.raises(RuntimeError):
        yard.go(steps=9, checkpoint=SELDOM)
    assert yard.states("node-a") == [Mark(fence=1, step=6)]
    yard.dies = yard.full_spool = None
    assert "restored" not in [state for state, _, _ in told(yard.go(steps=9, checkpoint=SELDOM)[0])]


@pytest.mark.parametrize("changes", [{"parallel": {"shard": 2}}, {"parallel": {"compression": "powersgd"}}])
def test_ranks_that_are_no_copies_keep_none(changes: dict[str, object], yard: MemoryYard) -> None:
    yard.dies = (1, 7)
    with pytest.raises(RuntimeError):
        yard.go(steps=9, checkpoint=SELDOM, **changes)
    assert not list((yard.root / "node-a").rglob("manifest.json"))


def test_notes_that_become_dear_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last, "PROBES", 5)
    monkeypatch.setattr(last, "SHARE", 0.5)
    plan = SimpleNamespace(memory=RunMemory(tmp_path))
    facts = SimpleNamespace(fence=1, rank=0, device=torch.device("cpu"))
    metrics = SimpleNamespace(flush=lambda: True)
    kept = last.LastState(plan, facts, metrics)  # type: ignore[arg-type]

    def has_note(step: int) -> bool:
        time.sleep(0.02)  # what a step takes
        kept.stepped(step)
        return last.RandomNotes.read(last.note_path(plan.memory, 1, 0), step) is not None

    assert all(has_note(step) for step in range(10))
    metrics.flush = lambda: time.sleep(0.1) or True
    assert not [has_note(step) for step in range(10, 30)][-1]


def test_a_note_that_was_torn_is_none(tmp_path: Path) -> None:
    notes = last.RandomNotes(tmp_path / "notes")
    state = random_state(torch.device("cpu"))
    notes.write(4, state)
    notes.write(5, state)
    assert last.RandomNotes.read(tmp_path / "notes", 4) == last.RandomNotes.read(tmp_path / "notes", 5) == state
    assert last.RandomNotes.read(tmp_path / "notes", 6) is None
    data = bytearray((tmp_path / "notes").read_bytes())
    data[100] ^= 1
    (tmp_path / "notes").write_bytes(data)
    assert last.RandomNotes.read(tmp_path / "notes", 4) is None

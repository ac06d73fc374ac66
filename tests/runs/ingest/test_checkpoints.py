"""Records about checkpoints: each is stored once, changes only what its attempt may speak of, and hurts nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.ingest.commit import Committed, Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.checkpoints import store
from runs.records.checkpoints.read import candidates
from runs.records.metrics.models import Checkpoint, CheckpointUse, DeadLetter, Telemetry
from runs.records.points import read
from tests.spools import Spool, some_points

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]

NODE = Source("node1", "node-a")
FACTS: dict[str, Any] = {
    "bytes": 4096, "num_files": 3, "world_size": 2, "degrees": {"data": 2}, "took_s": 0.5, "stall_s": 0.01, "at": 1e3,
}  # fmt: skip


def hand_in(data: bytes, run: str = "run1", fence: int = 1) -> Committed:
    return commit(run, fence=fence, source=NODE, batch=incoming(data))


def told(*notes: dict[str, Any], run: str = "run1", fence: int = 1) -> Spool:
    """A rank of the attempt said this, and it has arrived."""
    spool = Spool()
    spool.begin(rank=0)
    for note in notes:
        spool.add("checkpoint", **note)
    hand_in(spool.bytes, run, fence)
    return spool


def saved(step: int, fence: int = 1, **changes: Any) -> dict[str, Any]:
    return {"state": "saved", "run": "run1", "step": step, "fence": fence, "name": f"step-{step}.fence-{fence}",
            **FACTS, **changes}  # fmt: skip


def sound(run: str = "run1") -> list[str]:
    return [row.name for row in candidates(run, before=100, number=10)]


def troubles(run: str = "run1") -> dict[str, int]:
    return dict(Telemetry.objects.get(pk=run).troubles)


def test_what_was_saved_is_known_with_all_its_facts() -> None:
    told(saved(100, something_newer="is ignored"))
    row = Checkpoint.objects.get()
    assert (row.run_id, row.name, row.rank, row.node) == ("run1", "step-100.fence-1", 0, "node-a")
    assert {name: getattr(row, name) for name in FACTS} == FACTS
    assert sound() == ["step-100.fence-1"]
    assert troubles() == {}


def test_a_record_that_comes_again_changes_nothing() -> None:
    spool = told(saved(100), {"state": "restored", "step": 50, "fence": 1})
    before = list(Checkpoint.objects.values()), list(CheckpointUse.objects.values())
    committed = hand_in(spool.bytes)
    assert (list(Checkpoint.objects.values()), list(CheckpointUse.objects.values())) == before
    assert not committed.has_checkpoints


def test_points_and_notes_of_a_batch_are_stored_together() -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 3))
    spool.add("checkpoint", **saved(3))
    spool.points(some_points(4, 3))
    committed = hand_in(spool.bytes)
    assert committed.has_checkpoints and committed.cursor == 1
    assert read.summaries(["run1"])["run1"]["train/loss"]["count"] == 6


def test_one_that_was_deleted_or_is_invalid_is_not_gone_on_from() -> None:
    told(
        *(saved(step) for step in (100, 200, 300)),
        {"state": "deleted", "step": 100, "fence": 1, "at": 1234.0},
        {"state": "invalid", "step": 300, "fence": 1, "why": "model.safetensors has another checksum"},
    )
    assert sound() == ["step-200.fence-1"]
    rows = {row.step: row for row in Checkpoint.objects.all()}
    assert rows[100].deleted_at == 1234.0
    assert rows[300].invalid_why == "model.safetensors has another checksum"


def test_one_that_a_node_has_not_got_is_not_damaged_for_all() -> None:
    told(saved(100), {"state": "invalid", "step": 100, "fence": 1, "why": "no such folder", "missing": True})
    assert sound() == ["step-100.fence-1"]
    assert CheckpointUse.objects.get().why == "no such folder"


def test_the_newest_attempt_s_come_first_whatever_their_steps() -> None:
    told(saved(100), saved(300))
    told(saved(150, fence=2), fence=2)
    assert sound() == ["step-150.fence-2", "step-300.fence-1", "step-100.fence-1"]
    assert [row.name for row in candidates("run1", before=2, number=1)] == ["step-300.fence-1"]


def test_what_an_older_attempt_saves_after_a_newer_began_is_not_gone_on_from(make_run: MakeRun) -> None:
    run = make_run(fence=2)
    told(saved(300, run=run.pk), run=run.pk, fence=1)
    assert Checkpoint.objects.get().is_late
    assert sound(run.pk) == []
    told(saved(200, run=run.pk, fence=2), run=run.pk, fence=2)
    assert sound(run.pk) == ["step-200.fence-2"]


@pytest.mark.parametrize(
    "note",
    [saved(100, run="another"), saved(100, fence=1), saved(100, fence=3), {"state": "deleted", "step": 100, "fence": 3},
     {"state": "invalid", "step": 100, "fence": 3}],
    ids=["another run's", "an older fence", "a newer fence", "deletes a newer", "calls a newer invalid"],
)  # fmt: skip
def test_an_attempt_speaks_for_nobody_else(note: dict[str, Any]) -> None:
    told(saved(100, fence=3), fence=3)
    before = list(Checkpoint.objects.values())
    told(note, fence=2)
    assert list(Checkpoint.objects.values()) == before
    assert troubles() == {"checkpoint_notes": 1}


def test_what_became_of_another_run_s_checkpoint_changes_nothing_there() -> None:
    told(saved(100, run="origin"), run="origin")
    told({"state": "invalid", "run": "origin", "step": 100, "fence": 1, "why": "torn"})
    told({"state": "deleted", "run": "origin", "step": 100, "fence": 1})
    assert sound("origin") == ["step-100.fence-1"]
    use = CheckpointUse.objects.get()
    assert (use.run_id, use.attempt, use.state, use.source_run, use.step, use.why) == (
        "run1", 1, "invalid", "origin", 100, "torn",
    )  # fmt: skip


def test_that_none_are_kept_is_known_with_the_reason() -> None:
    told({"state": "off", "why": "the nodes do not share a folder"})
    use = CheckpointUse.objects.get()
    assert (use.state, use.step, use.why) == ("off", None, "the nodes do not share a folder")


@pytest.mark.parametrize(
    "wrong",
    [{"state": "eaten"}, {"state": 7}, {"step": "100"}, {"step": -1}, {"step": 2**63}, {"step": True}, {"step": None},
     {"fence": 2**31}, {"fence": 1.5}, {"run": "../../etc"}, {"run": ["run1"]}, {"bytes": "many"}, {"bytes": 2**64 - 1},
     {"degrees": [2]}, {"degrees": {"data": "2"}}, {"degrees": {str(axis): 1 for axis in range(17)}},
     {"degrees": {"x" * 10_000: 1}}, {"took_s": float("nan")}, {"stall_s": float("inf")}, {"at": 1e300}, {"at": "now"},
     {"why": {"a": 1}}, {"missing": 1}, {"world_size": -1}],
    ids=lambda wrong: str(wrong)[:30],
)  # fmt: skip
def test_what_has_a_wrong_type_is_a_dead_letter_and_what_follows_is_stored(wrong: dict[str, Any]) -> None:
    told({**saved(100), **wrong}, saved(200))
    assert sound() == ["step-200.fence-1"]
    assert troubles() == {"refused_points": 1}
    assert DeadLetter.objects.count() == 1


def test_long_texts_are_cut_and_none_holds_what_a_database_cannot() -> None:
    told(saved(100), {"state": "invalid", "step": 100, "why": "\0" + "x" * 10_000})
    assert Checkpoint.objects.get().invalid_why == "\ufffd" + "x" * 999


def test_a_flood_is_bounded_and_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_REPORTS", 50)
    monkeypatch.setattr(store, "MAX_PER_RUN", 60)
    monkeypatch.setattr(store, "SLACK", 10)
    monkeypatch.setattr(store, "MAX_USES_PER_RUN", 5)
    told(*(saved(step) for step in range(1, 101)))
    assert Checkpoint.objects.count() == 50
    assert troubles() == {"checkpoint_notes": 50}
    told(*({"state": "deleted", "step": step, "fence": 1} for step in range(51, 91)))
    told(*(saved(step) for step in range(101, 131)))
    assert Checkpoint.objects.count() == 60
    assert sound() == [f"step-{step}.fence-1" for step in range(130, 120, -1)]
    assert Checkpoint.objects.filter(deleted_at=None).count() == 40  # those that were deleted made room
    told(*({"state": "off"} for _ in range(9)))
    assert CheckpointUse.objects.count() == 5
    assert troubles() == {"checkpoint_notes": 54}

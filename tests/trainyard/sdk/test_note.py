"""Notes about checkpoints: each is one record, in the spool when the call returns, and no danger to the training."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import trainyard
from tests.trainyard.spooled import eventually, points, producers, told
from trainyard.sdk import run as sdk

SAVED = {"state": "saved", "step": 100, "fence": 1, "bytes": 4096, "degrees": {"data": 2}}


def test_a_note_is_one_record_on_the_disk_when_the_call_returns(spool: Path) -> None:
    run = trainyard.init()
    run.log({"loss": 1.0}, step=100)
    run.note(SAVED)
    [frames] = producers(spool)
    assert [frame.kind for frame in frames] == ["begin", "points", "checkpoint"]
    assert frames[-1].payload == {"p": frames[0].producer, "q": 3, "t": "checkpoint", **SAVED}
    run.log({"loss": 2.0}, step=101)
    eventually(lambda: points(producers(spool)[0])["loss", ()] == [(100, 1.0), (101, 2.0)])


def test_what_was_logged_is_on_the_disk_when_it_is_flushed(spool: Path) -> None:
    run = trainyard.init()
    for step in range(200):
        run.log({"loss": 1.0}, step=step)
        run.flush()
        assert points(producers(spool)[0])["loss", ()][-1] == (step, 1.0)
    run.finish()
    run.flush()


def test_a_note_can_not_pretend_to_be_another_record(spool: Path) -> None:
    run = trainyard.init()
    run.note({**SAVED, "p": "0" * 32, "q": 77, "t": "end"})
    run.finish()
    [frames] = producers(spool)
    assert [frame.kind for frame in frames] == ["begin", "checkpoint", "end"]


@pytest.mark.parametrize(
    "payload",
    [{"why": "x" * 20_000}, {"step": object()}, {"step": 2**70}, {"data": b"x" * 2_000_000}],
    ids=["long", "object", "integer", "frame"],
)
def test_what_cannot_be_told_is_counted_and_raises_nothing(spool: Path, payload: dict[str, Any]) -> None:
    run = trainyard.init()
    run.note(payload)
    run.log({"loss": 1.0}, step=1)
    run.finish()
    assert run.num_bad_values == 1
    [frames] = producers(spool)
    assert "checkpoint" not in [frame.kind for frame in frames]
    assert told(frames) == {"bad_values": 1}
    assert points(frames)["loss", ()] == [(1, 1.0)]


def test_a_note_after_the_end_is_a_warning(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.finish()
    run.note(SAVED)
    assert "came after finish()" in caplog.text


def test_a_spool_at_its_limit_takes_notes_still(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1")
    run = trainyard.init()
    run.log({"loss": 1.0}, step=1)
    run.note(SAVED)
    [frames] = producers(spool)
    assert "checkpoint" in [frame.kind for frame in frames]


def test_a_disk_that_hangs_keeps_the_training_for_a_moment_only(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "NOTE_TIMEOUT_S", 0.05)
    run = trainyard.init()
    eventually(lambda: len(producers(spool)) == 1)
    is_held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with run._writing:  # as a write does that the disk does not answer
            is_held.set()
            let_go.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(30)
    run.note(SAVED)
    assert len(producers(spool)[0]) == 1
    let_go.set()
    holder.join()
    eventually(lambda: producers(spool)[0][-1].kind == "checkpoint")


def test_a_disk_that_refuses_gets_the_note_later(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "RETRY_PERIOD_S", 0.01)
    run = trainyard.init()
    eventually(lambda: len(producers(spool)) == 1)
    refusing = True
    write = os.write

    def refuse(descriptor: int, data: Any) -> int:
        if refusing:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    run.note(SAVED)
    refusing = False
    eventually(lambda: producers(spool)[0][-1].kind == "checkpoint")

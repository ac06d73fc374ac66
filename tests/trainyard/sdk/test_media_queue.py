"""Media on their way into the spool: bounded in memory and time, in nobody's way, and counted where they are lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trainyard
from tests.trainyard.media_records import frames, media
from tests.trainyard.spooled import eventually, told
from trainyard.sdk import media_queue
from trainyard.sdk import run as sdk
from trainyard.spooling.frames import decode
from trainyard.spooling.reader import READ_BYTES, SpoolReader
from trainyard.spooling.writer import spool_files


def test_memory_is_bounded_and_what_finds_no_room_is_counted(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_queue, "MAX_BYTES", 10_000)
    spool.write_text("a file is in the way")
    run = trainyard.init()
    for step in range(20):
        run.log({"story": trainyard.Text("x" * 1000)}, step=step)
        if step == 5:
            eventually(lambda: len(run._media) == 0 or len(run._outbox) > 0)  # encoded or not, it counts
    assert run.num_lost_points == 10
    run.log({"loss": 1.0}, step=99)  # numbers have room of their own
    spool.unlink()
    run.finish()
    assert [payload["step"] for payload in media(spool)] == list(range(10))
    assert told(frames(spool)) == {"lost_points": 10}
    assert run._outbox.num_data_bytes == 0 and run._num_pending == 0


def test_beyond_the_spool_s_limit_media_are_dropped_and_counted(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1000")
    run = trainyard.init()
    run.log({"story": trainyard.Text("x" * 2000)}, step=1)
    eventually(lambda: len(media(spool)) == 1)
    run._outbox._limit._looked_at = float("-inf")
    run.log({"story": trainyard.Text("y")}, step=2)
    run.finish()
    assert len(media(spool)) == 1 and run.num_refused_points == 1


def test_a_note_waits_for_no_picture_and_points_do_not_either(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, is_at_work = threading.Event(), threading.Event()

    class Slow(trainyard.Text):
        def encode(self, room_bytes: int) -> Any:
            is_at_work.set()
            may_go_on.wait(30)
            return super().encode(room_bytes)

    run = trainyard.init()
    run.log({"slow": Slow("x")}, step=1)
    assert is_at_work.wait(30)
    run.note({"state": "saved", "step": 1, "fence": 1})
    assert [frame.kind for frame in frames(spool)] == ["begin", "checkpoint"]
    may_go_on.set()
    run.finish()
    assert [payload["name"] for payload in media(spool)] == ["slow"]


def test_a_forked_child_does_not_write_what_its_parent_logged(spool: Path) -> None:
    code = (
        "import os, trainyard, time\n"
        "run = trainyard.init()\n"
        "run.log({'story': trainyard.Text('parent')}, step=1)\n"
        "if os.fork() == 0:\n"
        "    run.log({'story': trainyard.Text('child')}, step=2)\n"
        "    run.finish()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TRAINYARD_SPOOL": str(spool)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = []
    for producer, numbers in spool_files(spool).items():
        read = SpoolReader(spool, producer).read(READ_BYTES, numbers)
        texts.append([decode(frame.raw)[0].payload["data"] for frame in read if frame.kind == "media"])
    assert sorted(texts) == [[b"child"], [b"parent"]]


def test_at_the_end_encoding_has_so_much_time_and_what_is_left_is_counted(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sdk, "ENCODE_TIMEOUT_S", 0.0)

    class Slow(trainyard.Text):
        def encode(self, room_bytes: int) -> Any:
            threading.Event().wait(0.2)
            return super().encode(room_bytes)

    run = trainyard.init()
    run.log({"slow": [Slow("x")] * 10}, step=1)
    run.finish()
    assert 0 < len(media(spool)) < 10
    assert run.num_lost_points == 10 - len(media(spool)) == told(frames(spool))["lost_points"]
    assert "encoded in time" in caplog.text

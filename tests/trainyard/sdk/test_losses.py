"""What the SDK cannot keep costs a warning, is counted, and is told; forks, crashes and full disks harm nothing."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trainyard
from tests.trainyard.spooled import eventually, points, producers, told
from trainyard.sdk import run as sdk
from trainyard.spooling import writer as spool_module
from trainyard.spooling.writer import spool_path


def test_an_unwritable_folder_costs_one_warning_and_later_room_saves_the_points(
    spool: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "RETRY_PERIOD_S", 0.01)
    spool.write_text("a file is in the way")
    run = trainyard.init()
    for step in range(100):
        run.log({"loss": 1.0}, step=step)
    eventually(lambda: bool(caplog.records))
    assert not run.flush()
    spool.unlink()
    eventually(lambda: spool.is_dir())
    run.log({"loss": 2.0}, step=100)
    assert run.flush()
    run.finish()
    assert len(caplog.records) == 1 and "training goes on" in caplog.text
    assert len(points(producers(spool)[0])["loss", ()]) == 101
    assert run.num_lost_points == 0


def test_a_disk_that_stays_full_costs_no_exception_and_no_more_memory(
    spool: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "MAX_PENDING_POINTS", 50)
    spool.write_text("a file is in the way")
    run = trainyard.init()
    for step in range(200):
        run.log({"loss": 1.0}, step=step)
    run.finish()
    assert run.num_lost_points == 200
    assert len(caplog.records) == 2  # the folder, and that points are dropped


def test_what_found_no_room_is_told_as_soon_as_the_disk_takes_it(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "MAX_PENDING_POINTS", 50)
    monkeypatch.setattr(sdk, "RETRY_PERIOD_S", 0.01)
    spool.write_text("a file is in the way")
    run = trainyard.init()
    for step in range(120):
        run.log({"loss": 1.0}, step=step)
    assert run.num_lost_points == 70
    spool.unlink()
    eventually(lambda: spool.is_dir() and bool(producers(spool)) and told(producers(spool)[0]) == {"lost_points": 70})
    run.log({"loss": None}, step=120)
    run.finish()
    [frames] = producers(spool)
    assert told(frames) == {"lost_points": 70, "bad_values": 1}
    assert len(points(frames)["loss", ()]) == 50


def test_training_goes_on_over_a_real_disk_that_is_full(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sdk, "RETRY_PERIOD_S", 0.01)
    monkeypatch.setattr(sdk, "MAX_PENDING_POINTS", 20_000)
    monkeypatch.setenv("TRAINYARD_SPOOL", str(small_disk))
    filler = small_disk / "filler"
    filler.write_bytes(bytes(700_000))
    run = trainyard.init()
    try:
        for step in range(50_000):
            run.log({"loss": 1.0}, step=step)
            if step % 5000 == 0:
                time.sleep(0.02)
        eventually(lambda: "No space left" in caplog.text)
        lost = run.num_lost_points
        assert 0 < lost < 50_000
        filler.unlink()
        eventually(lambda: run._num_pending == 0)
        run.log({"loss": 2.0}, step=50_000)
    finally:
        run.finish()
    [frames] = producers(small_disk)
    found = points(frames)["loss", ()]
    assert len(found) + lost == 50_001 and found[-1] == (50_000, 2.0)
    assert told(frames) == {"lost_points": lost}
    assert len(caplog.records) == 2  # the disk, and that points are dropped


def test_a_limit_of_the_operating_system_on_files_harms_nothing(spool: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import resource, trainyard\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "run = trainyard.init()\n"
        "for step in range(10_000):\n"
        "    run.log({'loss': step}, step=step)\n"
        "run.finish()\n"
        "print('lost', run.num_lost_points)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0 and "cannot be written" in ended.stderr
    [frames] = producers(spool)
    kept = len(points(frames).get(("loss", ()), []))
    assert ended.stdout == f"lost {10_000 - kept}\n" and kept < 10_000


def test_beyond_its_limit_the_spool_takes_no_points_until_some_were_shipped(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "100000")
    monkeypatch.setattr(spool_module, "LOOK_EVERY_S", 0.01)
    others = spool_path(spool, "b" * 32, 1)
    run = trainyard.init()
    run.log({"loss": 0.0}, step=0)
    eventually(lambda: run._num_pending == 0)
    others.write_bytes(bytes(100_000))
    time.sleep(0.02)
    for step in (1, 2, 3):
        run.log({"loss": 0.0, "rate": 1.0}, step=step)
    eventually(lambda: run.num_refused_points == 6)
    others.unlink()
    time.sleep(0.02)
    run.log({"loss": 4.0}, step=4)
    eventually(lambda: run._num_pending == 0)
    run.finish()
    [frames] = producers(spool)
    assert points(frames) == {("loss", ()): [(0, 0.0), (4, 4.0)]}
    assert told(frames) == {"spool_limit": 6}
    assert [record.getMessage() for record in caplog.records if "limit" in record.getMessage()] == [
        f"trainyard: the spool in {spool} is at its limit; points are dropped until some is shipped"
    ]


def test_a_spool_that_stays_at_its_limit_says_so_at_the_end(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1")
    run = trainyard.init()
    run.log({"loss": 1.0, "rate": 2.0}, step=0)
    run.finish()
    [frames] = producers(spool)
    assert points(frames) == {} and told(frames) == {"spool_limit": 2}
    assert [frame.kind for frame in frames] == ["begin", "lost", "end"]


def test_a_forked_child_is_another_producer(spool: Path) -> None:
    run = trainyard.init()
    run.log({"parent": 1.0}, step=0)
    child = multiprocessing.get_context("fork").Process(target=lambda: run.log({"child": 2.0}, step=0))
    child.start()
    child.join()
    silent = multiprocessing.get_context("fork").Process(target=gc.collect)
    silent.start()
    silent.join()
    run.finish()
    found = producers(spool)
    assert len(found) == 2  # a child that logs nothing leaves nothing
    assert sorted(str(points(frames)) for frames in found) == [
        "{('child', ()): [(0, 2.0)]}",
        "{('parent', ()): [(0, 1.0)]}",
    ]
    assert all(frames[-1].kind == "end" for frames in found)


def test_forks_in_the_middle_of_logging_lose_and_double_nothing(spool: Path) -> None:
    run = trainyard.init()
    run.log({"bad": None})
    children = []
    for number in range(8):
        for step in range(500):
            run.log({"parent": 1.0}, step=number * 500 + step)
        pid = os.fork()
        if pid == 0:
            for step in range(100):
                run.log({f"child/{number}": 2.0}, step=step)
            run.finish()
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
    run.finish()
    found = [points(frames) for frames in producers(spool)]
    assert len(found) == 9
    parent = [one for one in found if ("parent", ()) in one]
    assert [step for step, _ in parent[0]["parent", ()]] == list(range(4000)) and len(parent) == 1
    for number in range(8):
        [child] = [one for one in found if (f"child/{number}", ()) in one]
        assert child == {(f"child/{number}", ()): [(step, 2.0) for step in range(100)]}
    assert [told(frames) for frames in producers(spool) if told(frames)] == [{"bad_values": 1}], "told by one of them"


def test_a_script_that_is_killed_leaves_all_but_the_last_moment(spool: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import itertools, time, trainyard\n"
        "run = trainyard.init()\n"
        "for step in itertools.count():\n"
        "    run.log({'loss': step}, step=step)\n"
        "    time.sleep(0.001)\n"
        "    print(step, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    script_process = subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE)
    assert script_process.stdout is not None
    for _ in range(300):
        script_process.stdout.readline()
    script_process.kill()
    last = int((script_process.communicate()[0] or b"299").split()[-1])
    [frames] = producers(spool)
    steps = [step for step, _ in points(frames)["loss", ()]]
    assert steps == list(range(len(steps))) and 0 < len(steps) <= last + 2


def test_a_script_that_just_ends_leaves_everything(spool: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import trainyard\n"
        "run = trainyard.init()\n"
        "for step in range(10):\n"
        "    run.log({'loss': step}, step=step)\n"
        "raise SystemExit(3)\n"
    )
    environment = {**os.environ, "RANK": "5", "TRAINYARD_NODE": "node-b", "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (3, "")
    [frames] = producers(spool)
    assert len(points(frames)["loss", ()]) == 10
    assert frames[0].payload["rank"] == 5 and frames[0].payload["node"] == "node-b"
    assert frames[-1].payload["reason"] == "exit"

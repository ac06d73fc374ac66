"""What the supervisor itself records, also where the spool is at its limit."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.disks import disk_of_1_mb, fill
from tests.frames import frames
from tests.workers.control import ControlledNode, until
from tests.workers.stream import ORDER
from trainyard.contract.records import Begin
from trainyard.spooling import writer as spool_module
from trainyard.spooling.frames import Frame
from trainyard.spooling.writer import SpoolLimit, SpoolWriter, spool_path
from workers.attempt.folder import AttemptFolder
from workers.supervisor.ranks.state import RankState
from workers.supervisor.records import collector
from workers.supervisor.records import log_tail as logs
from workers.supervisor.records.collector import Collector


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    folder = AttemptFolder(tmp_path / "a")
    folder.create(replace(ORDER, node_name="one"))
    return folder


def collect(folder: AttemptFolder) -> Collector:
    order = folder.order()
    assert order is not None
    order = replace(order, first_rank=0, num_ranks=1)
    collecting = Collector(order, folder, [RankState(rank=0, pid=os.getpid(), started_at=time.time())], [])
    collecting.start()
    return collecting


def recorded(folder: AttemptFolder) -> list[Frame]:
    return [frame for path in sorted(folder.spool.glob("*.spool")) for frame in frames(path.read_bytes())]


def lines(folder: AttemptFolder) -> list[str]:
    return [text for frame in recorded(folder) for _, text in frame.payload.get("lines", [])]


def lost(folder: AttemptFolder) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for frame in recorded(folder):
        counts.update(frame.payload.get("counts", {}))
    return dict(counts)


def test_lines_and_samples_are_recorded_while_the_ranks_run(folder: AttemptFolder) -> None:
    collecting = collect(folder)
    with folder.stream_path(0, "stdout").open("a") as stdout:
        stdout.write("one\n")
        stdout.flush()
        until(lambda: lines(folder) == ["one"])
        stdout.write("two\nhalf")
        stdout.flush()
        until(lambda: lines(folder) == ["one", "two"])
    collecting.finish()
    assert lines(folder) == ["one", "two", "half"]
    names = {name for frame in recorded(folder) for group in frame.payload.get("g", []) for name in group[1]}
    of_ranks = {"system/rank_memory_bytes", "system/rank_cpu_percent"}  # the second from the second sample on
    assert names - of_ranks == {"system/cpu_percent", "system/memory_bytes"} and "system/rank_memory_bytes" in names
    assert recorded(folder)[-1].kind == "end"


def test_at_the_limit_lines_wait_in_their_files_and_samples_are_counted(
    folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "100000")
    monkeypatch.setattr(spool_module, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(collector, "SAMPLE_EVERY_S", 0.05)
    others = spool_path(folder.spool, "b" * 32, 1)
    others.write_bytes(bytes(200_000))
    collecting = collect(folder)
    folder.stream_path(0, "stdout").write_text("said in between\n")
    until(lambda: collecting._num_refused >= 6)
    others.unlink()
    until(lambda: lines(folder) == ["said in between"])
    collecting.finish()
    assert lost(folder)["spool_limit"] >= 6
    assert lines(folder) == ["said in between"]


def test_a_disk_that_is_full_from_the_start_costs_nothing_that_is_kept_elsewhere(tmp_path: Path) -> None:
    with disk_of_1_mb(tmp_path / "disk") as disk:
        folder = AttemptFolder(disk / "a")
        folder.create(replace(ORDER, node_name="one"))
        folder.stream_path(0, "stdout").write_text("said before\n")
        filler = fill(disk)
        collecting = collect(folder)
        time.sleep(0.2)
        assert lines(folder) == [] and collecting.is_alive()
        filler.unlink()
        collecting.finish()
        assert lines(folder) == ["said before"]


def test_what_is_left_in_the_end_for_want_of_room_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1")
    path = tmp_path / "rank-0.stdout"
    path.write_text("line\n" * 1000)
    writer = SpoolWriter(tmp_path / "spool", begin=Begin())
    logs.LogTail(path, 0, "stdout").drain(writer, SpoolLimit(tmp_path / "spool"), until=time.monotonic())
    [_, frame] = frames(writer.path.read_bytes())
    assert (frame.kind, frame.payload["counts"]) == ("lost", {"spool_limit": 1000})
    writer.abandon()


@pytest.mark.extended
def test_who_hangs_without_a_word_can_be_told_from_who_computes_in_silence(calm_node: ControlledNode) -> None:
    script = """
import os, time
while os.environ["RANK"] == "1":
    pass
time.sleep(3600)
"""
    order = calm_node.order(script, ranks=2)
    calm_node.launch(order)

    def moved() -> list[float]:
        calm_node.tick()
        ranks = (calm_node.report(order) or {}).get("ranks") or [{}]
        return [max(rank.get("printed_at") or 0.0, rank.get("computed_at") or 0.0) for rank in ranks]

    until(
        lambda: (found := moved()) and min(found) and found[1] - found[0] >= 15,
        about=lambda: f"{calm_node.report(order)} {calm_node.log()[-6000:]}",
    )
    calm_node.say(order, wanted="stop")
    calm_node.wait_for(order, "ended")

"""What ranks print is held against rules where it passes, and a bounded part of what was found is reported."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from trainyard.contract.orders import LogRule
from trainyard.contract.records import Begin
from trainyard.spooling.writer import SpoolWriter, read_frames
from workers.supervisor.records import rule_watch
from workers.supervisor.records.log_tail import LogTail
from workers.supervisor.records.rule_watch import RuleWatch

SLOW = LogRule("slow-disk", "nfs: server .* not responding", "exclude-node")


def test_the_first_line_and_the_number_are_reported() -> None:
    watch = RuleWatch([SLOW])
    watch.read(["fine", "nfs: server a not responding"], rank=1, stream="stderr", at=5.0)
    assert watch.has_news
    watch.read(["nfs: server b not responding"], rank=0, stream="stdout", at=6.0)
    (found,) = watch.matches()
    assert (found.label, found.action, found.rank, found.stream) == ("slow-disk", "exclude-node", 1, "stderr")
    assert (found.line, found.at, found.count) == ("nfs: server a not responding", 5.0, 2)
    assert not watch.has_news and not found.is_builtin


def test_the_line_is_reported_without_its_colours() -> None:
    watch = RuleWatch([SLOW])
    watch.read(["\x1b[31mnfs: server a not responding\x1b[0m"], rank=0, stream="stderr", at=5.0)
    assert [one.line for one in watch.matches()] == ["nfs: server a not responding"]


def test_signs_of_failures_are_found_without_any_rule() -> None:
    watch = RuleWatch([])
    watch.read(["OSError: [Errno 28] No space left on device"], rank=0, stream="stderr", at=1.0)
    (found,) = watch.matches()
    assert found.label == "disk-full" and found.is_builtin


def test_a_rule_that_fits_everything_is_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_watch, "MAX_COUNTED", 5)
    watch = RuleWatch([LogRule("all", "."), SLOW])
    for _ in range(4):
        watch.read(["a", "b", "c"], rank=0, stream="stdout", at=1.0)
    watch.read(["nfs: server a not responding"], rank=0, stream="stdout", at=1.0)
    assert [(one.label, one.count) for one in watch.matches()] == [("all", 5), ("slow-disk", 1)]


def test_a_long_line_is_cut_in_the_report() -> None:
    watch = RuleWatch([LogRule("long", "x+")])
    watch.read(["x" * 100_000], rank=0, stream="stdout", at=1.0)
    assert len(watch.matches()[0].line) == rule_watch.MAX_LINE


def test_lines_are_seen_as_they_are_moved(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.stdout"
    log.write_bytes(b"one\nnfs: server a not responding\nhalf of")
    watch = RuleWatch([SLOW])
    spool = SpoolWriter(tmp_path / "spool", begin=Begin(node="n", role="supervisor"))
    tail = LogTail(log, 0, "stdout", rules=watch)
    while tail.move(spool):
        pass
    assert [one.count for one in watch.matches()] == [1]


def points_of(watch: RuleWatch) -> list[tuple[str, dict[str, str], list[int], list[float]]]:
    return [
        (one.names[0], one.labels, [*struct.unpack(f"<{len(one.steps) // 8}q", one.steps)],
         [*struct.unpack(f"<{len(one.values) // 8}d", one.values)])
        for one in watch.take_points()
    ]  # fmt: skip


def test_numbers_in_lines_are_points_of_a_metric_with_the_step_that_the_line_says() -> None:
    watch = RuleWatch([LogRule("train/loss", r"step (?P<step>\d+) .*loss[ =:]+(\S+)", "metric")])
    watch.read(["step 10 lr 0.1 loss: 2.5", "fine", "step 20 lr 0.1 loss=nan"], rank=0, stream="stdout", at=5.0)
    watch.read(["step 10 lr 0.1 loss: 2.6", "step 30 lr 0.1 loss: soon"], rank=1, stream="stdout", at=6.0)
    (first, second) = points_of(watch)
    assert first[:3] == ("train/loss", {}, [10, 20])
    assert first[3][0] == 2.5 and math.isnan(first[3][1])
    assert second == ("train/loss", {"rank": "1"}, [10], [2.6])
    assert points_of(watch) == []


def test_without_a_step_lines_count_themselves_for_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_watch, "MAX_COUNTED", 2)
    watch = RuleWatch([LogRule("loss", r"(?P<value>[-+0-9.e]+) is the loss of (\w+)", "metric")])
    for number in range(4):
        watch.read([f"{number}.5 is the loss of a"], rank=0, stream="stdout", at=1.0)
    assert points_of(watch) == [("loss", {}, [0, 1, 2, 3], [0.5, 1.5, 2.5, 3.5])]


def test_points_go_into_the_spool_behind_their_lines(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("loss 1.5\nloss 1.25\n")
    spool = SpoolWriter(tmp_path / "spool", begin=Begin(node="a", role="supervisor"))
    rules = RuleWatch([LogRule("loss", r"loss (\S+)", "metric")])
    assert LogTail(tmp_path / "out", 0, "stdout", rules=rules).move(spool)
    spool.close("exit")
    [path] = (tmp_path / "spool").glob("*.spool")
    frames, _ = read_frames(path)
    assert [frame.kind for frame in frames][:3] == ["begin", "logs", "points"]

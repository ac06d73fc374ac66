"""What ranks print is held against rules where it passes, and a bounded part of what was found is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.contract.orders import LogRule
from trainyard.contract.records import Begin
from trainyard.spooling.writer import SpoolWriter
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

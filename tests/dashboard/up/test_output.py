"""What children say arrives whole: on the terminal with their name in front, and in their own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.up import output
from dashboard.up.output import LONGEST_LINE, Console, LineCutter, LogFile
from tests.disks import disk_of_1_mb, fill


def test_lines_are_put_together_again_from_pieces() -> None:
    lines = LineCutter()
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o\n\nthr") == [b"two", b""]
    assert lines.end() == [b"thr"]
    assert lines.end() == []


def test_a_line_without_an_end_comes_in_bounded_pieces() -> None:
    lines = LineCutter()
    pieces = lines.feed(b"x" * (3 * LONGEST_LINE + 5)) + lines.end()
    assert [len(piece) for piece in pieces] == [LONGEST_LINE] * 3 + [5]


def test_a_pipe_shows_plain_names_and_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(is_coloured=False)
    console.say("Ready")
    console.line("web", "\x1b[31mred")
    console.close()
    assert capsys.readouterr().out == "Ready\nweb      | [31mred\n"


def test_a_terminal_shows_each_name_in_a_colour_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(is_coloured=True)
    console.line("web", "a")
    console.line("control", "b")
    console.line("web", "c")
    console.close()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.split("m")[0] == third.split("m")[0] != second.split("m")[0]


def test_a_log_starts_anew_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "KEEP_BYTES", 100)
    log = LogFile(tmp_path / "web.log")
    for number in range(30):
        log.write(f"line {number:04}\n".encode())
    log.close()
    kept = (tmp_path / "web.log.1").read_text() + (tmp_path / "web.log").read_text()
    assert kept.endswith("line 0029\n")
    assert all(path.stat().st_size <= 120 for path in tmp_path.iterdir())


def test_a_full_disk_costs_lines_and_never_an_error(tmp_path: Path) -> None:
    with disk_of_1_mb(tmp_path / "small") as disk:
        log = LogFile(disk / "web.log")
        log.write(b"before\n")
        filler = fill(disk)
        for _ in range(20):
            log.write(b"x" * 4096 + b"\n")
        filler.unlink()
        log.write(b"after\n")
        log.close()
        lines = (disk / "web.log").read_bytes().splitlines()
    assert lines[0] == b"before"
    assert lines[-1] == b"after"
    assert lines[-2].endswith(b"lines were left out: the disk was full")

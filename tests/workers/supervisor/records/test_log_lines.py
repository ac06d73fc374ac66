"""Bytes that programs print, as lines of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.contract.records import Begin
from trainyard.spooling.writer import SpoolWriter, read_frames
from workers.supervisor.records.log_tail import ESCAPE, LINE_LIMIT_BYTES, READ_BYTES, LogTail, shown, split_lines


@pytest.mark.parametrize(
    ("data", "lines", "taken"),
    [
        (b"", [], 0),
        (b"one\ntwo\n", ["one", "two"], 8),
        (b"one\nhalf", ["one"], 4),
        (b"\n\n", ["", ""], 2),
        (b"windows\r\n", ["windows"], 9),
        (b" 10%\r 20%\r100%\n", ["100%"], 15),
        (b"\xff\xfe\n", ["\ufffd\ufffd"], 3),
        (b"\x00\x1b[31mred\n", ["\x00\x1b[31mred"], 10),
    ],
)
def test_whole_lines_are_taken_and_the_rest_stays(data: bytes, lines: list[str], taken: int) -> None:
    assert split_lines(data) == (lines, taken)


def test_the_rest_is_taken_at_the_end() -> None:
    assert split_lines(b"one\nhalf", is_final=True) == (["one", "half"], 8)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_over_long_line_is_cut_into_pieces_between_characters(end: bytes) -> None:
    data = "ä".encode() * LINE_LIMIT_BYTES + b"z" + end
    lines, taken = split_lines(data, is_final=True)
    assert taken == len(data)
    assert "".join(lines) == "ä" * LINE_LIMIT_BYTES + "z"
    assert all(len(line.encode()) <= LINE_LIMIT_BYTES for line in lines)


def test_a_line_of_exactly_the_limit_is_one_line() -> None:
    data = b"x" * LINE_LIMIT_BYTES + b"\n"
    assert split_lines(data) == ([data[:-1].decode()], len(data))


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("plain \x1b[31mred", "plain \x1b[31mred"),
        ("long text\rshort", "shorttext"),
        ("long text\r\x1b[Kshort", "short"),
        ("long text\rshort\x1b[K", "short"),
        ("long text\x1b[2K\rshort", "short"),
        ("long text\r\x1b[2Kshort", "short"),
        ("abcdef\r\x1b[1Kxy", "xycdef"),
        ("a\rbb\rccc\rdd", "ddc"),
        ("windows\r", "windows"),
        ("\r\r", ""),
        ("\x1b[31mred\x1b[0m\rb", "b\x1b[31med\x1b[0m"),
        ("\x1b[31mred\x1b[0m\r\x1b[32mgreen\x1b[0m", "\x1b[32mgreen\x1b[0m"),
        ("ä🙂x\rö", "ö🙂x"),
        ("x\r\x1b[0;" + "1;" * 40 + "1my", "y"),
    ],
)
def test_a_line_is_what_a_terminal_shows_at_its_end(line: str, seen: str) -> None:
    assert shown(line) == seen


def test_of_many_colours_without_a_reset_none_is_cut_in_two() -> None:
    bar = "".join(f"\x1b[38;2;{place};{200 - place};120m#" for place in range(40))
    seen = shown(f" 10%\r{bar}")
    assert ESCAPE.sub("", seen) == "#" * 40
    assert "\x1b[38;2;39;161;120m#" in seen


def test_what_is_hidden_changes_nothing() -> None:
    states = [f"{percent:3d}% of it" for percent in range(101)]
    assert shown("\r".join(["a much longer beginning", *states])) == "100% of itger beginning"


def test_an_over_long_bar_is_cut_between_its_states() -> None:
    data = b"".join(b"\r%5d steps" % step for step in range(10_000))
    lines, taken = split_lines(data)
    assert len(data) - taken < LINE_LIMIT_BYTES
    assert lines and all(line.endswith(" steps") and len(line) == 11 for line in lines)


class Printed:
    """A program's output, as a supervisor reads it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rank-0.stdout"
        self.spool = SpoolWriter(folder / "spool", begin=Begin(node="a", role="supervisor"))
        self.tail = LogTail(self.path, 0, "stdout")

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def move(self, now: float, *, is_final: bool = False) -> None:
        for _ in range(10_000):
            if not self.tail.move(self.spool, is_final=is_final, now=now):
                return
        raise AssertionError("it never ends")

    def frames(self) -> list[dict[str, object]]:
        found, position = [], 0
        (path,) = (self.path.parent / "spool").glob("*.spool")
        for _ in range(10_000):
            frames, position = read_frames(path, position)
            if not frames:
                break
            found += [frame.payload for frame in frames if frame.kind == "logs"]
        return found

    def lines(self) -> list[str]:
        return [text for frame in self.frames() for _, text in frame["lines"]]  # type: ignore[attr-defined]


@pytest.fixture
def printed(tmp_path: Path) -> Printed:
    (tmp_path / "spool").mkdir()
    return Printed(tmp_path)


def test_a_progress_bar_that_does_not_end_is_seen_every_five_seconds(printed: Printed) -> None:
    for tenth in range(120):
        printed.write(b"\r%d%%" % tenth)
        printed.move(tenth / 10)
    assert printed.lines() == ["49%", "99%"]
    printed.write(b"\rall of it\n")
    printed.move(12.0)
    assert printed.lines() == ["49%", "99%", "all of it"]
    assert printed.frames()[-1]["offset"] == printed.path.stat().st_size


def test_a_bar_that_stands_still_is_seen_once_and_its_end_is_no_line(printed: Printed) -> None:
    printed.write(b"\r50%")
    for second in range(20):
        printed.move(float(second))
    assert printed.lines() == ["50%"]
    printed.write(b"\nnext\n")
    printed.move(21.0)
    assert printed.lines() == ["50%", "next"]


def test_an_unfinished_line_without_a_bar_waits_for_its_end(printed: Printed) -> None:
    printed.write(b"Loading ... ")
    for second in range(20):
        printed.move(float(second))
    printed.write(b"done\n")
    printed.move(21.0)
    assert printed.lines() == ["Loading ... done"]


def test_a_huge_line_comes_in_pieces_and_no_character_is_cut(printed: Printed) -> None:
    text = "x" + "€" * (2 * READ_BYTES)
    printed.write(text.encode() + b"\xff\n")
    printed.move(0.0)
    lines = printed.lines()
    assert "".join(lines) == text + "\ufffd"
    assert all(len(line.encode()) <= LINE_LIMIT_BYTES for line in lines)
    assert printed.frames()[-1]["offset"] == printed.path.stat().st_size

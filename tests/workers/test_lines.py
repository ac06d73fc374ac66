"""Bytes that programs print, as lines of text."""

from __future__ import annotations

import pytest

from workers.supervisor.lines import LINE_LIMIT_BYTES, split_lines


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

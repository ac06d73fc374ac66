from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.data.library import make_library
from trainyard.spec.sections.data import TextData
from workers.training.data.problems import DataProblem
from workers.training.data.sources import text
from workers.training.data.sources.text import StandardLibrary, open_text


def parts(data: TextData) -> tuple[bytes, bytes]:
    """Return what is trained on and what validates."""
    pieces = list(open_text(data).pieces())
    return tuple(b"".join(piece.text for piece in pieces if piece.validates is side) for side in (False, True))  # type: ignore[return-value]


def of(location: Path, **changes: Any) -> TextData:
    return TextData(**{"source": "text", "location": str(location), **changes})


def write_lines(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_the_two_parts_of_the_library_come_from_different_files(tmp_path: Path) -> None:
    pieces = list(StandardLibrary(make_library(tmp_path)).pieces())
    train, validation = ({p.text for p in pieces if p.validates is side} for side in (False, True))
    assert train and validation and not train & validation
    assert len(train | validation) == 60


def test_tests_and_installed_packages_are_left_out(tmp_path: Path) -> None:
    whole = b"".join(piece.text for piece in StandardLibrary(make_library(tmp_path)).pieces())
    assert b"TEST" not in whole and b"INSTALLED" not in whole


def test_of_many_files_some_validate_by_their_names(tmp_path: Path) -> None:
    for index in range(60):
        (tmp_path / f"story{index}.txt").write_text(f"story {index}")
    train, validation = parts(of(tmp_path))
    stories = {f"story {index}" for index in range(60)}
    assert {*train.decode().splitlines()} | {*validation.decode().splitlines()} == stories
    assert 0 < len(validation.splitlines()) < 12
    (tmp_path / "story9.txt").unlink()
    assert {*parts(of(tmp_path))[1].splitlines()} == {*validation.splitlines()} - {b"story 9"}


def test_of_one_file_whole_lines_all_over_it_validate(tmp_path: Path) -> None:
    lines = [f"{index:07}\n" for index in range(300_000)]
    (tmp_path / "one.txt").write_text("".join(lines))
    train, validation = (part.decode().splitlines(keepends=True) for part in parts(of(tmp_path / "one.txt")))
    assert sorted(train + validation) == lines
    assert 0.03 < len(validation) / len(lines) < 0.07
    assert int(validation[0]) < 75_000 and int(validation[-1]) > 225_000


def test_of_a_small_file_the_last_lines_validate(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("".join(f"{index}\n" for index in range(1000)))
    train, validation = parts(of(tmp_path / "one.txt"))
    assert train + validation == (tmp_path / "one.txt").read_bytes()
    assert validation.startswith(b"95") and 150 < len(validation) < 200


def test_bytes_that_are_no_utf_8_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(bytes(range(256)) * 10)
    assert b"".join(parts(of(tmp_path / "one.txt"))) == bytes(range(256)) * 10


def test_a_file_without_lines_comes_in_pieces_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(b"x" * 3_000_000)
    pieces = list(open_text(of(tmp_path / "one.txt")).pieces())
    assert max(len(piece.text) for piece in pieces) <= 2 * text.PIECE_BYTES
    assert sum(len(piece.text) for piece in pieces) == 3_000_000
    assert {piece.validates for piece in pieces} == {True, False}


@pytest.mark.parametrize("size", [30_000, 327_680, 400_000, 650_000])
@pytest.mark.parametrize("name", ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"])
def test_some_of_a_file_without_lines_validates_whatever_it_is_called(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(b"x" * size)
    train, validation = parts(of(tmp_path / name))
    assert len(train) + len(validation) == size
    assert 0.01 < len(validation) / size < 0.15


def test_each_line_of_json_gives_its_field(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", *({"body": f"tale {n} ä", "id": n} for n in range(200)), "")
    train, validation = (part.decode().splitlines() for part in parts(of(path, source="jsonl", text_field="body")))
    assert sorted(train + validation) == sorted(f"tale {n} ä" for n in range(200))
    assert len(validation) == 10


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', r"rows\.jsonl, line 3 is no JSON \(.*, at character 13\): correct it or take it out"),
        ("[1, 2]", r"line 3 is no JSON object: each line is one, such as \{\"text\": …\}"),
        (
            '{"body": "a", "id": 1}',
            r"line 3 has no field 'text': let task\.data\.text_field name one of .*\(body, id\)",
        ),
        ('{"text": 7}', r"line 3 has no text but 7 in its field 'text'"),
    ],
)
def test_a_line_without_text_is_refused_by_file_and_line(line: str, message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", {"text": "a"}, {"text": "b"}, line)
    with pytest.raises(DataProblem, match=message):
        parts(of(path, source="jsonl"))


@pytest.mark.parametrize("line", ["[" * 100_000, '{"text": ' + "9" * 5_000 + "}"])
def test_json_that_python_does_not_take_is_refused_by_file_and_line(line: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", {"text": "one"}, line)
    with pytest.raises(DataProblem, match=r"rows\.jsonl, line 2 cannot be read as JSON"):
        parts(of(path, source="jsonl"))


def test_of_few_lines_of_json_the_last_one_validates(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", *({"text": f"text {index}"} for index in range(5)))
    assert parts(of(path, source="jsonl")) == (b"text 0\ntext 1\ntext 2\ntext 3\n", b"text 4\n")


def test_a_line_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(DataProblem, match=r"rows\.jsonl, line 1 is not UTF-8"):
        parts(of(tmp_path / "rows.jsonl", source="jsonl"))


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 2**20)
    (tmp_path / "rows.jsonl").write_bytes(b"[" * 3 * 2**20)
    with pytest.raises(DataProblem, match=r"rows\.jsonl has a line of more than 1 MiB: is it JSON by the line"):
        parts(of(tmp_path / "rows.jsonl", source="jsonl"))


def test_the_key_follows_the_content_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("a" * 100)
    first = open_text(of(path)).key
    assert open_text(of(path)).key == first
    assert open_text(of(path, source="jsonl")).key != first
    os.utime(path, (1, 1))
    assert open_text(of(path)).key != first


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataProblem, match=r"nowhere\.txt"):
        open_text(of(tmp_path / "nowhere.txt"))


def test_a_file_that_must_have_another_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a" * 100)
    with pytest.raises(DataProblem, match=r"task\.data\.digest is 0000"):
        open_text(of(tmp_path / "one.txt", digest="0" * 64))

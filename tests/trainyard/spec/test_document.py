"""Reading a spec from a file and changing it by dotted paths."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.spec import SpecError, load_spec_file, merge
from trainyard.spec.document import line_at, parse_document, parse_value

# Each line has ten times the one above it; merged keys would even be copied while they are read.
EXPLODING = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{above}'] * 10)}]}}\n" for above, name in pairwise("abcdefghi")
)


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: x\ntask: {recipe: language-model}\n")
    (tmp_path / "run.json").write_text('{"name": "x", "task": {"recipe": "language-model"}}')
    assert load_spec_file(tmp_path / "run.yaml") == load_spec_file(tmp_path / "run.json")


def test_a_key_that_yaml_takes_for_true_is_text() -> None:
    found = parse_document("restarts:\n  on: {killed: stop}\ncompile: yes\n", "run.yaml")
    assert found == {"restarts": {"on": {"killed": "stop"}}, "compile": True}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.yaml", b"name: [", "run.yaml cannot be read"),
        ("run.yaml", b"name: a\nname: b\n", '"name" is there twice'),
        ("run.yaml", b"x: !!python/object/apply:os.system ['true']", "cannot be read"),
        ("run.yaml", b"\xff\xfe\xfa", "cannot be read"),
        ("run.yaml", EXPLODING.encode(), r"aliases .* more than 50,000 values .* line 5"),
        ("run.yaml", EXPLODING.replace("{<<: ", "").replace("]}", "]").encode(), "aliases .* more than 50,000 values"),
        ("run.json", b"{", "run.json cannot be read"),
        ("run.json", b'{"name": 1, "name": 2}', '"name" is there twice'),
        ("run.json", b"[" * 100_000, "cannot be read"),
    ],
    ids=str,
)
def test_a_file_that_is_neither_is_refused(name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        parse_document(content, name)


def test_aliases_within_bounds_are_read_and_a_cycle_is_left_to_who_counts_values() -> None:
    assert parse_document("a: &a {k: [1]}\nb: {<<: *a, c: *a}\n", "run.yaml")["b"] == {"k": [1], "c": {"k": [1]}}
    assert parse_document("a: &a {b: *a}\n", "run.yaml")["a"]["b"]["b"]


@pytest.mark.parametrize(
    ("path", "line"), [("train.steps", 4), ("train.speed", 3), ("name", 1), ("task.recipe", 2), ("other", 1)]
)
def test_a_field_has_a_line_and_one_that_is_missing_that_around_it(path: str, line: int) -> None:
    assert line_at("name: x\ntask: {recipe: tabular}\ntrain:\n  steps: 7\n", path) == line


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_spec_file(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("0.5", 0.5), ("true", True), ("null", None), ("", None), ("adamw", "adamw"), ("'3'", "3")),
        *(("[a, b]", ["a", "b"]), ("{min: 1}", {"min": 1}), ("1e-3", "1e-3")),
    ],
    ids=str,
)
def test_a_value_on_the_command_line_is_read_as_yaml(text: str, value: Any) -> None:
    assert parse_value(text) == value


def test_merging_sets_deep_values_and_leaves_the_original() -> None:
    document = {"name": "x", "train": {"steps": 3, "seed": 1}}
    merged = merge(document, {"train.steps": 5, "task.model.width": 64, "name": "y"})
    assert merged == {"name": "y", "train": {"steps": 5, "seed": 1}, "task": {"model": {"width": 64}}}
    assert document == {"name": "x", "train": {"steps": 3, "seed": 1}}


@pytest.mark.parametrize("path", ["", ".", "train.", ".steps", "train..steps"])
def test_a_path_with_an_empty_part_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match="no path of a field"):
        merge({}, {path: 1})


def test_a_path_through_what_is_no_map_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot be set: train is 3, not a map"):
        merge({"train": 3}, {"train.steps": 1})


@given(st.binary(max_size=200), st.sampled_from(["a.json", "a.yaml"]))
def test_random_bytes_raise_nothing_but_spec_error(content: bytes, name: str) -> None:
    try:
        parse_document(content, name)
    except SpecError as error:
        assert error.errors

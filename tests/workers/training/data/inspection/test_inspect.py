from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.workers.training.data.bringing import write_csv, write_image
from trainyard.contract.base import convert
from trainyard.contract.inspections import DatasetFacts
from workers.training.data.inspection import inspect as inspect_table
from workers.training.data.inspection import inspect as inspect_text
from workers.training.data.inspection.inspect import MAX_BYTES, InspectionRequest, inspect, main
from workers.training.data.problems import DataProblem


def look(location: Path, source: str, recipe: str = "tabular", **options: Any) -> DatasetFacts:
    facts = inspect(InspectionRequest.of(recipe, {"source": source, "location": str(location), **options}))
    assert len(json.dumps(facts, allow_nan=False)) <= MAX_BYTES
    return facts


def test_a_table_is_told_by_its_columns_its_first_rows_and_what_is_learnt(tmp_path: Path) -> None:
    rows = [(index, "" if index == 3 else index / 4, "red" if index % 2 else "blue") for index in range(40)]
    path = write_csv(tmp_path / "rows.csv", ["number", "part", "colour"], rows)
    facts = look(path, "csv", target="colour")
    by_name = {column.pop("name"): column for column in facts["columns"]}
    assert by_name["part"] == {
        "type": "numbers",
        "missing": 1,
        "num_distinct": 39,
        "examples": ["0.0", "0.25", "0.5"],
        "min": 0,
        "max": 9.75,
        "mean": pytest.approx(4.98077, abs=1e-4),
    }
    assert by_name["colour"] == {"type": "words", "missing": 0, "num_distinct": 2, "examples": ["blue", "red"]}
    assert by_name["number"]["type"] == "whole numbers"
    assert facts["rows"][3] == ["3", "", "red"] and len(facts["rows"]) == 30
    assert facts["classes"] == [{"name": "blue", "count": 20}, {"name": "red", "count": 20}]
    assert (facts["kind"], facts["num_rows"], facts["num_files"], facts["num_columns"]) == ("table", 40, 1, 3)
    assert (facts["num_features"], facts["num_classes"], facts["is_sample"]) == (3, 2, False)
    assert facts["size_bytes"] == path.stat().st_size and len(facts["digest"]) == 64


def test_without_a_target_the_columns_are_told(tmp_path: Path) -> None:
    facts = look(write_csv(tmp_path / "rows.csv", ["a", "b"], [(1, 2), (3, 4)]), "csv")
    assert [column["name"] for column in facts["columns"]] == ["a", "b"]
    assert "target" not in facts and "classes" not in facts


def test_of_a_large_table_the_first_rows_are_looked_at_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_table, "SAMPLED_ROWS", 1_000)
    table = pa.table({"a": np.arange(200_000.0), "label": np.arange(200_000) % 2})
    pq.write_table(table, tmp_path / "rows.parquet")
    facts = look(tmp_path / "rows.parquet", "parquet", target="label")
    assert facts["is_sample"] and facts["num_sampled"] < 100_000 and facts["num_rows"] == 200_000


def test_a_table_in_the_order_of_its_classes_is_no_problem_of_its_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_table, "SAMPLED_ROWS", 1_000)
    table = pa.table({"a": np.arange(200_000.0), "label": np.arange(200_000) // 100_000})
    pq.write_table(table, tmp_path / "rows.parquet")
    facts = look(tmp_path / "rows.parquet", "parquet", target="label")
    assert facts["target"] == "label" and "classes" not in facts


def test_a_wide_table_is_cut_to_what_may_be_said_and_keeps_its_target(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(50, 600)), y=np.arange(50) % 3)
    facts = look(tmp_path / "rows.npz", "npz", target="label")
    assert facts["num_columns"] == 601 and facts["num_features"] == 600
    assert facts["columns"][0]["name"] == "label" and len(facts["columns"]) > 20
    assert facts["rows"]


def test_what_columns_are_called_is_cut_to_what_a_server_takes(tmp_path: Path) -> None:
    question = "How often, in the last year, did you" + " really" * 80 + "?"
    rows = [(index, index % 2) for index in range(20)]
    facts = look(write_csv(tmp_path / "rows.csv", [f'"{question}"', "label"], rows), "csv", target="label")
    assert convert(facts, DatasetFacts)["columns"][0]["name"] == question[:200]


def test_images_are_told_by_their_classes_and_small_pictures_of_each(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for index in range(60):
        write_image(tmp_path / f"class{index % 3}" / f"{index}.png", noise.integers(0, 256, (90, 70, 3)))
    facts = look(tmp_path, "images", "image-classifier", image_size=16)
    assert facts["classes"] == [{"name": f"class{index}", "count": 20} for index in range(3)]
    assert (facts["kind"], facts["num_rows"], facts["channels"], facts["image_size"]) == ("images", 60, 3, 16)
    assert len(facts["images"]) >= 12
    for shown in facts["images"]:
        picture = Image.open(io.BytesIO(base64.b64decode(shown["png"])))
        assert picture.format == "PNG" and picture.size == (48, 48)


def test_arrays_of_images_are_told_alike(tmp_path: Path) -> None:
    images = np.zeros((40, 28, 28), np.uint8)
    np.savez(tmp_path / "images.npz", x=images, y=np.arange(40) % 10)
    facts = look(tmp_path / "images.npz", "npz", "image-classifier")
    assert (facts["num_classes"], facts["num_rows"], facts["channels"], facts["image_size"]) == (10, 40, 1, 28)
    assert len(facts["images"]) == 24


@pytest.mark.parametrize(
    ("shapes", "answers", "words"),
    [
        ([(30, 8, 8), (30, 9, 9)], 2, "images of one training have one shape"),
        ([(30, 8, 8)], 1, "has one class"),
        ([(0, 8, 8)], 2, "has no rows"),
    ],
)
def test_arrays_that_no_run_would_take_are_a_problem(
    tmp_path: Path, shapes: list[tuple[int, ...]], answers: int, words: str
) -> None:
    for index, shape in enumerate(shapes):
        np.savez(tmp_path / f"{index}.npz", x=np.zeros(shape, np.uint8), y=np.arange(shape[0]) % answers)
    with pytest.raises(DataProblem, match=words):
        look(tmp_path, "npz", "image-classifier")


def test_text_is_told_by_how_it_begins(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Once upon a time\n" * 500)
    (tmp_path / "b.txt").write_text("The end\n")
    facts = look(tmp_path, "text", "language-model")
    assert facts["text"].startswith("Once upon a time\nOnce") and len(facts["text"]) == 3_000
    assert facts["num_files"] == 2 and facts["tokens"] == facts["size_bytes"]


def test_json_by_the_line_is_told_by_its_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"body": f"text {index}"}) + "\n" for index in range(50)))
    facts = look(path, "jsonl", "language-model", text_field="body")
    assert facts["text"].startswith("text 0\ntext 1\n") and facts["num_rows"] == 50
    monkeypatch.setattr(inspect_text, "SAMPLED_ROWS", 10)
    sampled = look(path, "jsonl", "language-model", text_field="body")
    assert sampled["is_sample"] and sampled["num_rows"] == 50 and sampled["num_sampled"] == 10


@pytest.mark.parametrize(
    ("name", "text", "source", "options", "words"),
    [
        ("a.csv", "a,label\n1,2\n3,4\n", "csv", {"target": "price"}, "task.data.target is 'price', but the columns of"),
        ("a.csv", "a,label\n", "csv", {}, "has no rows below its columns' names"),
        ("a.csv", "a,b\n" + "1,2\n" * 9 + "x,2\n", "csv", {}, "line 11, column 'a' holds the text 'x'"),
        ("a.csv", "a,b\n1,2\n", "csv", {"digest": "0" * 64}, "task.data.digest is 0000"),
        ("a.jsonl", "{}\n", "jsonl", {}, "line 1 has no field 'text'"),
        ("a.txt", "", "text", {}, "is empty: there is no text to learn from"),
        ("a.csv", "", "digits", {}, "task.data.source is 'digits', which is built in"),
    ],
)
def test_what_cannot_be_trained_on_is_a_problem(
    tmp_path: Path, name: str, text: str, source: str, options: dict[str, Any], words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataProblem, match=words):
        look(tmp_path / name, source, **options)


def test_the_program_answers_on_stdout_and_needs_no_torch(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", ["a", "b"], [(1, 2), (3, 4)])
    code = (
        "import sys; from workers.training.data.inspection.inspect import main; main(); "
        "sys.exit([name for name in ('torch', 'django', 'sklearn') if name in sys.modules] or 0)"
    )
    asked = json.dumps({"recipe": "tabular", "data": {"source": "csv", "location": str(path)}})
    done = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["facts"]["num_rows"] == 2


def test_the_program_answers_with_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"recipe": "tabular", "data": {"source": "csv", "location": str(tmp_path / "none.csv")}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(asked)))
    main()
    assert "which is not on this machine" in json.loads(capsys.readouterr().out)["problem"]

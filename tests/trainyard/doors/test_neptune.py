"""`trainyard import neptune` against a real server: Parquet in the schema that neptune-exporter states."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from runs.models import Run
from runs.records.logs.read import end_of_log
from runs.records.metrics.models import Media
from tests.points import stored_values
from tests.trainyard.command import Trainyard
from trainyard.cli.parser import build_parser

PAGE = (Path(__file__).parents[3] / "docs/coming_from_neptune.md").read_text()
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pyarrow.schema([
    ("project_id", pyarrow.string()), ("run_id", pyarrow.string()), ("attribute_path", pyarrow.string()),
    ("attribute_type", pyarrow.string()), ("step", pyarrow.decimal128(18, 6)),
    ("timestamp", pyarrow.timestamp("ms", "UTC")), ("int_value", pyarrow.int64()), ("float_value", pyarrow.float64()),
    ("string_value", pyarrow.string()), ("bool_value", pyarrow.bool_()),
    ("datetime_value", pyarrow.timestamp("ms", "UTC")), ("string_set_value", pyarrow.list_(pyarrow.string())),
    ("file_value", pyarrow.struct([("path", pyarrow.string())])),
    ("histogram_value", pyarrow.struct([("type", pyarrow.string()), ("edges", pyarrow.list_(pyarrow.float64())),
                                        ("values", pyarrow.list_(pyarrow.float64()))])),
])  # fmt: skip
ABOUT = [
    ("sys/name", "string", "wide net"), ("sys/tags", "string_set", ["paper"]), ("sys/description", "string", "a try"),
    ("sys/creation_time", "datetime", START), ("sys/modification_time", "datetime", START + timedelta(seconds=90)),
    ("sys/failed", "bool", False), ("params/lr", "float", 0.5), ("params/lr/warmup", "int", 3), ("seed", "int", 7),
]  # fmt: skip


def row(path: str, kind: str, value: Any, step: str | None = None, after: float | None = None) -> dict[str, Any]:
    column = {"float_series": "float", "string_series": "string", "histogram_series": "histogram"}.get(kind, kind)
    return {
        "project_id": "team/vision", "run_id": "VIS-1", "attribute_path": path, "attribute_type": kind,
        "step": None if step is None else Decimal(step),
        "timestamp": None if after is None else START + timedelta(seconds=after), f"{column}_value": value,
    }  # fmt: skip


def write(folder: Path, *parts: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(parts):
        parquet.write_table(pyarrow.Table.from_pylist(rows, SCHEMA), folder / f"VIS-1_part_{number}.parquet")


def imported(trainyard: Trainyard, folder: Path) -> list[dict[str, Any]]:
    ended = trainyard("import", "neptune", str(folder), "--json")
    assert ended.code == 0, ended.err
    items: list[dict[str, Any]] = json.loads(ended.out)["items"]
    return items


pytestmark = pytest.mark.usefixtures("valkey")


def test_an_exported_run_comes_with_all_that_has_a_counterpart_and_once(trainyard: Trainyard, tmp_path: Path) -> None:
    losses = [row("train/loss", "float_series", 1 / (n + 1), str(n), n) for n in range(4)]
    others = [
        row("train/loss", "float_series", float("nan"), "4", 4.5), row("train/loss", "float_series", 0.1, "4.5", 5),
        row("train/loss", "float_series", None, "6", 6), row("said", "string_series", "hello", "1", 1),
        row("monitoring/1a/stdout", "string_series", "one\ntwo", "0", 2),
        row("weights", "histogram_series", {"type": "COUNTING", "edges": [0.0, 1, 2], "values": [3.0, 4]}, "2", 2),
        row("weights", "histogram_series", {"type": "DENSITY", "edges": [0.0, 1.0], "values": [1.0]}, "3", 3),
        row("model", "file", {"path": "model.pt"}), row("said", "string_series", None, "2", 2),
        row("sys/group_tags", "string_set", None), row("weights", "histogram_series", None, "5", 5),
    ]  # fmt: skip
    write(tmp_path / "vision", [row(*one) for one in ABOUT] + losses, others)
    [item] = imported(trainyard, tmp_path)
    assert (item["run"]["name"], item["run"]["status"], item["points"]) == ("wide net", "SUCCEEDED", 5)
    run = Run.objects.get()
    assert run.config == {"params": {"lr": 0.5}, "params/lr/warmup": 3, "seed": 7}
    assert (run.tags, run.notes) == (["paper"], "a try")
    assert (run.started_at, run.ended_at) == (START, START + timedelta(seconds=90))
    at = START.timestamp()
    *exact, last = stored_values(run.pk)["train/loss"]
    assert exact == [(n, at + n, 1 / (n + 1)) for n in range(4)] and last[:2] == (4, at + 4.5) and last[2] != last[2]
    assert set(Media.objects.values_list("name", "kind", "step")) == {("said", "text", 1), ("weights", "histogram", 2)}
    assert [text for _, text in end_of_log(run.pk, 9)] == ["one", "two"]
    assert item["refused"] == {
        "train/loss: at a step that is no whole number": 1, "train/loss: a point without a value": 1,
        "said: a point without a value": 1, "weights: a point without a value": 1,
        "weights: a histogram of the kind DENSITY, not of counts": 1, "model: file stays where it is": 1,
    }  # fmt: skip
    assert [one["points"] for one in imported(trainyard, tmp_path)] == [0]


def test_a_run_that_failed_and_one_without_a_word_about_itself(trainyard: Trainyard, tmp_path: Path) -> None:
    write(tmp_path / "a", [row("sys/failed", "bool", True), row("x", "float_series", 1.0, "0", 1)])
    write(tmp_path / "b", [row("x", "float_series", 2.0, "0", 1) | {"run_id": "VIS-2"}])
    assert [(item["run"]["name"], item["run"]["status"]) for item in imported(trainyard, tmp_path)] == [
        ("VIS-1", "FAILED"), ("VIS-1", "SUCCEEDED"),
    ]  # fmt: skip
    assert Run.objects.count() == 2


def test_what_cannot_be_read_is_said(trainyard: Trainyard, tmp_path: Path) -> None:
    assert trainyard("import", "neptune", str(tmp_path)).code == 1
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other_part_0.parquet")
    ended = trainyard("import", "neptune", str(tmp_path))
    assert ended.code == 2 and "other_part_0.parquet is no Parquet of neptune-exporter" in ended.err
    (tmp_path / "other_part_0.parquet").unlink()
    (tmp_path / "torn_part_0.parquet").write_bytes(b"PAR1 torn")
    for source in (tmp_path, tmp_path / "torn_part_0.parquet"):
        ended = trainyard("import", "neptune", str(source))
        assert ended.code == 2 and "torn_part_0.parquet" in ended.err


def test_the_snippets_of_the_page_are_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = re.findall(r"^trainyard import .*$", PAGE, re.MULTILINE)
    build_parser().parse_args(shlex.split(command)[1:])
    [script] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    assert any((tmp_path / "trainyard-spool").iterdir())

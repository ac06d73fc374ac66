"""`trainyard import csv` and `jsonl`: files of rows become runs, once however often they come."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas
import pytest

from runs.models import Run
from runs.records.metrics.models import Media
from tests.points import stored_values
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def imported(trainyard: Trainyard, *words: str) -> list[dict[str, Any]]:
    ended = trainyard("import", *words, "--json")
    assert ended.code == 0, ended.err
    items: list[dict[str, Any]] = json.loads(ended.out)["items"]
    return items


def test_a_frame_that_pandas_wrote_is_a_run_for_each_name_in_a_column(trainyard: Trainyard, tmp_path: Path) -> None:
    rows = [{"trial": name, "epoch": n, "when": f"2026-01-01T00:00:0{n}", "loss": 1 / (n + 1), "said": "a, b\nc"}
            for name in ("x", "y") for n in range(3)]  # fmt: skip
    path = tmp_path / "metrics.csv"
    pandas.DataFrame(rows).to_csv(path)
    words = ("csv", str(path), "--run", "trial", "--step", "epoch", "--time", "when")
    items = imported(trainyard, *words)
    assert [(item["run"]["name"], item["points"], item["run"]["status"]) for item in items] == [
        ("x", 3, "SUCCEEDED"), ("y", 3, "SUCCEEDED"),
    ]  # fmt: skip
    run = items[0]["run"]["id"]
    assert stored_values(run) == {"loss": [(n, 1767225600.0 + n, 1 / (n + 1)) for n in range(3)]}
    assert [row.step for row in Media.objects.filter(run_id=run, kind="text")] == [0]  # that it says the same again
    assert [item["points"] for item in imported(trainyard, *words)] == [0, 0]
    with path.open("a") as file:
        file.write('6,y,3,2026-01-01T00:00:03,0.5,"a, b\nc"\n7,y,4')
    last = imported(trainyard, *words)
    assert [item["points"] for item in last] == [0, 1] and "still be being written" in json.dumps(last[1]["refused"])
    assert stored_values(last[1]["run"]["id"])["loss"][-1] == (3, 1767225603.0, 0.5)


def test_lines_of_json_are_rows_and_others_are_counted(trainyard: Trainyard, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"step": n, "_timestamp": 5.0 + n, "train": {"loss": n / 2}, "on": True, "none": None} for n in range(3)]
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows) + '[1]\nnot json\n{"step": 1.5, "x": 1}\n{"x": [1]}\n'
    )
    [item] = imported(trainyard, "jsonl", str(path))
    assert stored_values(item["run"]["id"]) == {
        "train/loss": [(n, 5.0 + n, n / 2) for n in range(3)], "on": [(n, 5.0 + n, 1.0) for n in range(3)],
    }  # fmt: skip
    assert item["refused"] == {
        "lines that are no JSON object": 2, "x: is neither a number nor a text": 1,
        "rows whose step is no whole number, or whose time is none": 1,
    }  # fmt: skip
    assert Run.objects.get().name == "log"


# What Trackio 0.43 leaves, without its tables that are not read.
TRACKIO = """
CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,
    run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);
CREATE TABLE configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL,
    config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));
"""


def test_projects_of_trackio_come_with_their_runs(trainyard: Trainyard, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "digits.db") as database:
        database.executescript(TRACKIO)
        log = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)"
        at = "2026-01-01T00:00:00.500000+00:00"
        for run in ("a" * 32, "b" * 32):
            database.execute(log, (run, at, f"run-{run[0]}", 0, b'{"loss":1.0,"a":{"b":2},"t":"x"}'))
            database.execute(log, (run, at, f"run-{run[0]}", 10, b'{"loss":"NaN","p":{"_type":"trackio.image"}}'))
            config = b'{"lr":0.5,"_Username":null}'
            database.execute("INSERT INTO configs VALUES (NULL, ?, '', ?, '')", (run, config))
        database.commit()
        items = imported(trainyard, "trackio", str(tmp_path))
        assert [(item["run"]["name"], item["points"], item["media"]) for item in items] == [
            ("run-a", 3, 1), ("run-b", 3, 1),
        ]  # fmt: skip
        run = Run.objects.get(pk=items[0]["run"]["id"])
        assert (run.config, run.status) == ({"lr": 0.5}, "SUCCEEDED")
        assert items[0]["refused"] == {"p: trackio.image has no counterpart": 1}
        assert str(stored_values(run.pk)["loss"]) == f"[(0, {1767225600.5}, 1.0), (10, {1767225600.5}, nan)]"
        database.execute(log, ("b" * 32, at, "run-b", 11, b'{"loss":0.5}'))
        database.commit()
        assert [item["points"] for item in imported(trainyard, "trackio", str(tmp_path))] == [0, 1]


def test_what_cannot_be_read_is_said(trainyard: Trainyard, tmp_path: Path) -> None:
    for words in (("csv", str(tmp_path / "nothing.csv")), ("jsonl", str(tmp_path))):
        ended = trainyard("import", *words)
        assert ended.code != 0 and words[1] in ended.err

"""`trainyard metrics`: every point, as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest

from runs.models import Run
from runs.values.status import Status
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_metrics_come_whole_however_many_there_are(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    points = [(step // 11_000, 1000.0 + step, step / 3) for step in range(22_000)]
    store(run, Spool().points(points, name="train/loss"))
    store(run, Spool().points([(0, 1.0, float("nan"))], name="=cmd()\r,", rank="1"))
    listed = trainyard("metrics", run.pk).out.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "=cmd(),", "train/loss"]
    rows = list(csv.DictReader(io.StringIO(trainyard("metrics", run.pk, "train/loss", "--csv").out)))
    assert [(int(row["step"]), float(row["time"]), float(row["value"])) for row in rows] == points
    everything = list(csv.DictReader(io.StringIO(trainyard("metrics", run.pk, "--csv").out, newline="")))
    assert len(everything) == 22_001
    first = everything[0]
    assert (first["name"], first["labels"], first["value"]) == ("'=cmd()\r,", '{"rank": "1"}', "NaN")
    [series] = json.loads(trainyard("metrics", run.pk, "train/loss", "--json").out)["series"]
    assert list(zip(series["step"], series["time"], series["value"], strict=True)) == points
    assert trainyard("metrics", run.pk, "=cmd()\r,").out.splitlines()[1].split() == ["0", "NaN", "rank=1"]


def test_metrics_of_what_is_not_there_are_refused(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    assert trainyard("metrics", make_run().pk, "val/loss").code == 1
    assert trainyard("metrics", "nothing", "--csv").code == 1

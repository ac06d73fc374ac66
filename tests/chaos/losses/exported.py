"""What the store holds of a run, as `GET /runs/{id}/series.csv` gives it: what a newer attempt hides, too."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

from tests.chaos.losses.reporter import NAME as OVER_REST
from tests.points import ANY_ATTEMPT, Points, SeriesKey, gathered, key_of, rows
from tests.whole.runs import Yard


def exported(yard: Yard, runs: list[str]) -> Points:
    return gathered((key, rows(*columns)) for run in runs for key, columns in _series(yard, run))


def _series(yard: Yard, run: str) -> Iterator[tuple[SeriesKey, list[list[float]]]]:
    with yard.http.stream("GET", f"/runs/{run}/series.csv", params={"attempts": "all"}) as answer:
        assert answer.status_code == 200, answer.read()
        found: dict[SeriesKey, list[list[float]]] = {}
        for line in csv.DictReader(answer.iter_lines()):
            attempt = ANY_ATTEMPT if line["name"] == OVER_REST else int(line["attempt"])
            key = key_of(line["run"], attempt, line["name"], json.loads(line["labels"] or "{}"))
            steps, times, values = found.setdefault(key, [[], [], []])
            steps.append(int(line["step"]))
            times.append(float(line["time"]))
            values.append(float(line["value"]))
    yield from found.items()

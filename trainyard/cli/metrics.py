"""The command ``metrics``: which series a run has, and the points of one, as a table or as CSV."""

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypedDict

from trainyard.cli.screen import Screen, figure
from trainyard.rest import answers
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError


class AttemptPoints(TypedDict):
    """The points of one series in one attempt, in the shape of REST."""

    name: str
    labels: dict[str, str]
    attempt: int
    kind: str
    step: list[int]
    time: list[float]
    value: list[float | str]


def metrics(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    if arguments.csv and arguments.name is None:
        sys.stdout.writelines(client.series_csv(arguments.id))
        return 0
    known = list(client.series(arguments.id))
    if arguments.name is None:
        _list(screen, known, arguments.json)
        return 0
    if not any(one["name"] == arguments.name for one in known):
        raise ApiError(404, f"{arguments.id} has no metric {arguments.name}", [])
    text = client.series_csv(arguments.id, name=arguments.name)
    if arguments.csv:
        sys.stdout.writelines(text)
    elif arguments.json:
        screen.json({"series": list(_series(arguments.name, csv_rows(text)))})
    else:
        rows = [(r["step"], figure(_number(r["value"])), _labels(labels_of(r["labels"]))) for r in csv_rows(text)]
        screen.table(("step", "value", "labels"), rows)
    return 0


def _list(screen: Screen, known: list[answers.Series], is_json: bool) -> None:
    if is_json:
        screen.json({"items": known})
        return
    titles = ("name", "labels", "count", "first_step", "last_step", "last", "min", "max")
    rows = []
    for one in known:
        figures = (figure(one[key]) for key in ("last", "min", "max"))
        rows.append((one["name"], _labels(one["labels"]), one["count"], one["first_step"], one["last_step"], *figures))
    screen.table(titles, rows)


def csv_rows(text: Iterator[str]) -> Iterator[dict[str, str]]:
    return csv.DictReader(_lines(text))


def _lines(text: Iterator[str]) -> Iterator[str]:
    """Cut the text after each newline and nowhere else, since names may hold what else ends a line."""
    rest = ""
    for part in text:
        *whole, rest = (rest + part).split("\n")
        yield from (f"{line}\n" for line in whole)
    if rest:
        yield rest


def _series(name: str, rows: Iterable[dict[str, str]]) -> Iterator[AttemptPoints]:
    """Yield the points of each attempt: rows of one lie together."""
    for (labels, attempt), group in groupby(rows, key=lambda row: (row["labels"], row["attempt"])):
        points = [(int(row["step"]), float(row["time"]), _number(row["value"])) for row in group]
        steps, times, values = (list(column) for column in zip(*points, strict=True))
        yield AttemptPoints(
            name=name, labels=labels_of(labels), attempt=int(attempt), kind="raw", step=steps, time=times, value=values
        )


def _number(text: str) -> float | str:
    return text if text in ("NaN", "Infinity", "-Infinity") else float(text)


def labels_of(labels: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(labels) if labels else {}
    return found


def _labels(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())

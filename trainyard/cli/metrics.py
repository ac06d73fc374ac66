"""The command ``metrics``: which series a run has, and the points of one, as a table or as CSV."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any

from trainyard.cli.screen import Screen, figure
from trainyard.client import ApiError, Client

CSV_TITLES = ("name", "labels", "attempt", "step", "time", "value")


def metrics(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    known = list(client.series(arguments.id))
    named = [one for one in known if arguments.name in (None, one["name"])]
    if arguments.name is not None and not named:
        raise ApiError(404, f"{arguments.id} has no metric {arguments.name}", [])
    if arguments.csv:
        _print_csv(client, arguments.id, named)
    elif arguments.name is None:
        _list(screen, known, arguments.json)
    else:
        _points(screen, _data(client, arguments.id, named), arguments.json)
    return 0


def _list(screen: Screen, known: list[dict[str, Any]], is_json: bool) -> None:
    if is_json:
        screen.json({"items": known})
        return
    titles = ("name", "labels", "count", "first_step", "last_step", "last", "min", "max")
    rows = [
        (
            *(one["name"], _labels(one["labels"]), one["count"], one["first_step"], one["last_step"]),
            *(figure(one[key]) for key in ("last", "min", "max")),
        )
        for one in known
    ]
    screen.table(titles, rows)


def _points(screen: Screen, data: dict[str, Any], is_json: bool) -> None:
    if is_json:
        screen.json(data)
        return
    rows = [(step, figure(value), labels) for _, labels, _, step, _, value in _rows(data)]
    screen.table(("step", "value", "labels"), rows)


def _print_csv(client: Client, run_id: str, named: list[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_TITLES)
    for name in dict.fromkeys(one["name"] for one in named):
        data = _data(client, run_id, [one for one in named if one["name"] == name])
        writer.writerows((_no_formula(row[0]), _no_formula(row[1]), *row[2:]) for row in _rows(data))


def _data(client: Client, run_id: str, named: list[dict[str, Any]]) -> dict[str, Any]:
    """Return every point of the series, which have one name: as many are asked for as there are."""
    return client.series_data(run_id, named[0]["name"], points=sum(int(one["count"]) for one in named) + 1000)


def _rows(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for part in data["series"]:
        head = (part["name"], _labels(part["labels"]), part["attempt"])
        columns = zip(part["step"], part["time"], part["value"] if part["kind"] == "raw" else part["last"], strict=True)
        rows += [(*head, *point) for point in columns]
    return rows


def _labels(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())


def _no_formula(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text

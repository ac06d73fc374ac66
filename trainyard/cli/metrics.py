"""The command ``metrics``: which series a run has, and the points of one, as a table or as CSV."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from typing import Any

from trainyard.cli.screen import Screen, figure
from trainyard.client import ApiError, Client, Document

COLUMNS = ("step", "time", "value")
CSV_TITLES = ("name", "labels", "attempt", *COLUMNS)
MAX_POINTS = 10_000  # of a series, in one answer


def metrics(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    known = list(client.series(arguments.id))
    named = [one for one in known if arguments.name in (None, one["name"])]
    if arguments.name is not None and not named:
        raise ApiError(404, f"{arguments.id} has no metric {arguments.name}", [])
    if arguments.name is None and not arguments.csv:
        _list(screen, known, arguments.json)
        return 0
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if arguments.csv:
        writer.writerow(CSV_TITLES)
    for name in dict.fromkeys(one["name"] for one in named):
        parts = _all_points(client, arguments.id, [one for one in named if one["name"] == name], screen)
        if arguments.csv:
            writer.writerows((_no_formula(row[0]), _no_formula(row[1]), *row[2:]) for row in _rows(parts))
        elif arguments.json:
            screen.json({"series": parts})
        else:
            rows = [(step, figure(value), labels) for _, labels, _, step, _, value in _rows(parts)]
            screen.table(("step", "value", "labels"), rows)
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


def _all_points(client: Client, run_id: str, named: list[Document], screen: Screen) -> list[Document]:
    """Return every point of the series, which have one name: the API gives so many at once, so ask by ranges."""
    steps = [one[key] for one in named for key in ("first_step", "last_step") if one[key] is not None]
    found: dict[tuple[str, int], Document] = {}
    waiting = [(min(steps), max(steps))] if steps else []
    while waiting:
        first, last = waiting.pop()
        query = {"from": first, "to": last, "points": MAX_POINTS}
        parts = client.series_data(run_id, named[0]["name"], **query)["series"]
        if first < last and any(part["kind"] != "raw" for part in parts):
            middle = (first + last) // 2
            waiting += [(middle + 1, last), (first, middle)]
            continue
        for part in parts:
            if part["kind"] != "raw":
                screen.complain(f"step {first} of {part['name']} has more than {MAX_POINTS:,} points: left out")
                continue
            whole = found.setdefault((_labels(part["labels"]), part["attempt"]), {**part, **dict.fromkeys(COLUMNS)})
            for column in COLUMNS:
                whole[column] = (whole[column] or []) + part[column]
    return list(found.values())


def _rows(parts: list[Document]) -> Iterator[tuple[Any, ...]]:
    for part in parts:
        head = (part["name"], _labels(part["labels"]), part["attempt"])
        for point in zip(*(part[column] for column in COLUMNS), strict=True):
            yield (*head, *point)


def _labels(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())


def _no_formula(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text

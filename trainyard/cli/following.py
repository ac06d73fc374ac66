"""The commands ``logs`` and ``metrics``: a run's lines and points, followed while they come."""

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, cast

from trainyard.cli.screen import Screen, figure
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import FINAL
from trainyard.rest import answers
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError, given

PAGE = 1000
POLL_S = 0.5
HITS = 500
BUDGET_MS = 1000


class PrintedLine(NamedTuple):
    text: str  # with the rank in front, where several are read
    document: answers.LogLine


class LogReader:
    """Reads a run's log forward and remembers how far it came."""

    def __init__(self, client: Client, run_id: str, rank: int | None = None) -> None:
        self._client, self._run_id, self._rank = client, run_id, rank
        self._after: str | None = None

    def new_lines(self) -> Iterator[PrintedLine]:
        while True:
            page = self._client.logs(self._run_id, rank=self._rank, after=self._after, limit=PAGE)
            for item in page["items"]:
                yield _line(item, self._rank)
            self._after = page["cursor"]  # where to read on later, also at the end
            if page["next"] is None:
                return


def logs(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.grep is not None or arguments.label or (arguments.level and not arguments.follow):
        for line in found(client, arguments):
            _print(line, arguments, screen)
        return
    reader = LogReader(client, arguments.id, arguments.rank)
    while True:
        # Asked before reading: what an ended run wrote is all there (a run ends when its records have arrived).
        is_last = not arguments.follow or client.run(arguments.id)["status"] in FINAL
        for line in reader.new_lines():
            if not arguments.level or (line.document["level"] or "none") in arguments.level:
                _print(line, arguments, screen)
        if is_last:
            return
        time.sleep(POLL_S)


def found(client: Client, arguments: argparse.Namespace) -> Iterator[PrintedLine]:
    """Yield the lines that fit, oldest first, as the server finds them."""
    after: str | None = ""
    place = f"runs/{quoted(arguments.id)}/logs"
    sought = {"label": arguments.label} if arguments.label else {"q": arguments.grep or "^", "regex": True}
    sought |= {"rank": arguments.rank, "level": arguments.level, "limit": HITS, "budget_ms": BUDGET_MS}
    while after is not None:
        query = given({**sought, "after": after})
        page = client.call("GET", f"{place}/search", answers.Page[answers.FoundLine], params=query)
        for item in page["items"]:
            asked = {"id": item["id"]}
            whole = client.call("GET", f"{place}/line", answers.LogLine, params=asked) if item.get("length") else item
            # As every command prints it: where it fits the search is of that search alone.
            line = {key: one for key, one in whole.items() if key not in ("spans", "index", "labels")}
            yield _line(cast(answers.LogLine, line), arguments.rank)
        after = page.get("next")  # None: all was searched


def _line(document: answers.LogLine, rank: int | None) -> PrintedLine:
    head = f"[{document['rank']}] " if rank is None else ""
    return PrintedLine(f"{head}{document['text']}", document)


def _print(line: PrintedLine, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.json:
        print(json.dumps(line.document), flush=arguments.follow)
    else:
        screen.line(line.text)


def metrics(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.csv and arguments.name is None:
        sys.stdout.writelines(client.series_csv(arguments.id))
        return
    known = list(client.series(arguments.id))
    if arguments.name is None:
        titles = ("name", "labels", "count", "first_step", "last_step", "last", "min", "max")
        screen.listing(known, titles, _series_row, is_json=arguments.json)
        return
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


def _series_row(one: run_answers.Series) -> tuple[object, ...]:
    figures = (figure(one[key]) for key in ("last", "min", "max"))
    return one["name"], _labels(one["labels"]), one["count"], one["first_step"], one["last_step"], *figures


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


def _series(name: str, rows: Iterable[dict[str, str]]) -> Iterator[JsonObject]:
    """Yield the points of each attempt, in the shape of REST: rows of one lie together."""
    for (labels, attempt), group in groupby(rows, key=lambda row: (row["labels"], row["attempt"])):
        points = [(int(row["step"]), float(row["time"]), _number(row["value"])) for row in group]
        steps, times, values = (list(column) for column in zip(*points, strict=True))
        about = {"name": name, "labels": labels_of(labels), "attempt": int(attempt), "kind": "raw"}
        yield {**about, "step": steps, "time": times, "value": values}


def _number(text: str) -> float | str:
    return text if text in ("NaN", "Infinity", "-Infinity") else float(text)


def labels_of(labels: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(labels) if labels else {}
    return found


def _labels(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())

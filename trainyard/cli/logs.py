"""The command ``logs``: what the ranks wrote, once or as it comes."""

import argparse
import json
import time
from collections.abc import Iterator
from typing import NamedTuple, cast

from trainyard.cli.screen import Screen
from trainyard.contract.statuses import FINAL
from trainyard.rest import answers
from trainyard.rest.client import Client

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
        """Yield the lines behind the last one that was read."""
        while True:
            page = self._client.logs(self._run_id, rank=self._rank, after=self._after, limit=PAGE)
            for item in page["items"]:
                yield _line(item, self._rank)
            self._after = page["cursor"]  # where to read on later, also at the end
            if page["next"] is None:
                return


def logs(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    if arguments.grep is not None or arguments.label or (arguments.level and not arguments.follow):
        for line in found(client, arguments):
            _print(line, arguments, screen)
        return 0
    reader = LogReader(client, arguments.id, arguments.rank)
    while True:
        # Asked before reading: what an ended run wrote is all there (a run ends when its records have arrived).
        is_last = not arguments.follow or client.run(arguments.id)["status"] in FINAL
        for line in reader.new_lines():
            if not arguments.level or (line.document["level"] or "none") in arguments.level:
                _print(line, arguments, screen)
        if is_last:
            return 0
        time.sleep(POLL_S)


def found(client: Client, arguments: argparse.Namespace) -> Iterator[PrintedLine]:
    """Yield the lines that fit, oldest first, as the server finds them."""
    after: str | None = ""
    while after is not None:
        page = client.search_logs(
            arguments.id, **_sought(arguments), rank=arguments.rank, level=arguments.level, after=after, limit=HITS,
            budget_ms=BUDGET_MS,
        )  # fmt: skip
        for item in page["items"]:
            whole = client.log_line(arguments.id, item["id"]) if item.get("length") else item
            yield _line(_without_place(whole), arguments.rank)
        after = page["next"]


def _sought(arguments: argparse.Namespace) -> dict[str, str | bool]:
    """Return what the search looks for: a label, else an expression, else every line."""
    return {"label": arguments.label} if arguments.label else {"q": arguments.grep or "^", "regex": True}


def _without_place(line: answers.LogLine) -> answers.LogLine:
    """Return the line as every command prints it: where it fits the search is of that search alone."""
    return cast(answers.LogLine, {key: one for key, one in line.items() if key not in ("spans", "index", "labels")})


def _line(document: answers.LogLine, rank: int | None) -> PrintedLine:
    head = f"[{document['rank']}] " if rank is None else ""
    return PrintedLine(f"{head}{document['text']}", document)


def _print(line: PrintedLine, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.json:
        print(json.dumps(line.document), flush=arguments.follow)
    else:
        screen.line(line.text)

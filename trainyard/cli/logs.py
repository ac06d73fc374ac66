"""The command ``logs``: what the ranks wrote, once or as it comes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from trainyard.cli.screen import Screen
from trainyard.client import Client

PAGE = 1000
POLL_S = 0.5


class Line(NamedTuple):
    text: str  # with the rank in front, where several are read
    document: dict[str, Any]


class LogReader:
    """Reads a run's log forward and remembers how far it came."""

    def __init__(self, client: Client, run_id: str, rank: int | None = None) -> None:
        self._client = client
        self._run_id = run_id
        self._rank = rank
        self._after: str | None = None

    def new_lines(self) -> Iterator[Line]:
        """Yield the lines behind the last one that was read."""
        while True:
            page = self._client.logs(self._run_id, rank=self._rank, after=self._after, limit=PAGE)
            for item in page["items"]:
                head = f"[{item['rank']}] " if self._rank is None else ""
                yield Line(f"{head}{item['text']}", item)
            self._after = page["cursor"]  # where to read on later, also at the end
            if page["next"] is None:
                return


def logs(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    reader = LogReader(client, arguments.id, arguments.rank)
    while True:
        # Asked before reading: what an ended run wrote is all there (a run ends when its records have arrived).
        is_last = not arguments.follow or client.run(arguments.id)["status"] in ("SUCCEEDED", "FAILED", "CANCELLED")
        for line in reader.new_lines():
            if arguments.json:
                print(json.dumps(line.document), flush=arguments.follow)
            else:
                screen.line(line.text)
        if is_last:
            return 0
        time.sleep(POLL_S)

"""Completion in shells, which call `trainyard` on each tab, with the line in the environment."""

import argparse
from typing import Any

from argcomplete import autocomplete
from argcomplete.completers import FilesCompleter

from trainyard.cli.screen import safe
from trainyard.rest.client import Client
from trainyard.rest.config import load

SOURCES = {"cluster": "name", "project": "name", "node": "name", "dataset": "name", "group": "name", "id": "id"}
BY_COMMAND = {"sweep": "sweeps", "job": "jobs", "token": "tokens", "report": "reports", "unshare": "share"}  # else runs
PATIENCE_S = 1.0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks by the environment, and end."""
    autocomplete(parser, always_complete_options="long", default_completer=_named)  # type: ignore[arg-type]


def _named(prefix: str, action: argparse.Action, parser: argparse.ArgumentParser, **_: Any) -> Any:
    """Return ids and names from the server, as far as one page has them; nothing where it does not answer at once."""
    if (field := SOURCES.get(action.dest)) is None:
        return FilesCompleter()(prefix=prefix) if action.metavar in ("FILE", "FOLDER", "DIR", "PATH") else []
    kind = next((kind for word, kind in BY_COMMAND.items() if word in parser.prog), "runs")
    place = kind if field == "id" else f"{action.dest}s"
    asked = {"limit": 100, "q": prefix if place == "runs" and prefix else None}
    try:
        known = load()
        with Client(*known, timeout_s=PATIENCE_S) as client, client.open(place, query=asked) as answer:
            answer.read()
            return {safe(one[field]): safe(one.get("name", "")) for one in answer.json()["items"]}
    except Exception:  # a shell shows no errors while somebody types
        return []

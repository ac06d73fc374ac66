"""``trainyard audit``: who did what, the check of the chain, and exports."""

from __future__ import annotations

import argparse
import sys

from trainyard.cli.screen import Screen, ago
from trainyard.rest.client import Client

FILTERS = ("actor", "action", "object", "project", "result", "q", "since", "until")


def listed(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = client.audit(arguments.limit, **_filters(arguments))
    if arguments.json:
        screen.json({"items": found})
        return 0
    rows = [
        (
            one["sequence"],
            ago(one["at"]),
            one["actor"] or "nobody",
            one["action"],
            one["object"],
            one["project"],
            one["result"],
        )
        for one in found
    ]
    screen.table(("row", "at", "who", "what", "of", "project", "result"), rows)
    return 0


def verify(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Exit code 1 where a row does not fit."""
    found = client.verify_audit()
    if arguments.json:
        screen.json(found)
    elif found["fault"] is not None:
        screen.complain(found["fault"]["sentence"])
    else:
        screen.say(f"{found['rows']} rows, {found['first']} to {found['last']}, are intact.")
        screen.line(found["hash"])
    return 0 if found["intact"] else 1


def export(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    for text in client.export_audit("csv" if arguments.csv else "jsonl", **_filters(arguments)):
        sys.stdout.write(text)
    return 0


def _filters(arguments: argparse.Namespace) -> dict[str, str | None]:
    return {name: getattr(arguments, name) for name in FILTERS}

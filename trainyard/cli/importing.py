"""The command ``import``: what other tools have recorded, as runs of a server."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainyard.cli.screen import Screen
from trainyard.doors.importing import Imported, send
from trainyard.doors.tensorboard.importing import foreign_runs
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError
from trainyard.sdk.sync import Stuck

FAILED, BAD_COMMAND = 1, 2
CONFLICT = 409


def import_tensorboard(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    folder = Path(arguments.folder)
    if not folder.is_dir():
        screen.complain(f"{folder} is no folder. It takes one with event files, such as ./runs.")
        return BAD_COMMAND
    found = foreign_runs(folder)
    if not found:
        screen.complain(f"There is nothing to import: no file below {folder} has tfevents in its name.")
        return FAILED
    came: list[Imported] = []
    has_failed = False
    for foreign in found:
        try:
            came.append(send(client, foreign, arguments.project))
        except (ApiError, Stuck) as error:
            if isinstance(error, ApiError) and error.status != CONFLICT:
                raise
            has_failed = True
            screen.complain(f"{foreign.name}: {error.detail if isinstance(error, ApiError) else error}")
    _report(came, arguments, screen)
    return FAILED if has_failed else 0


def _report(came: list[Imported], arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.json:
        items = [
            {"run": one.run, "points": one.num_points, "media": one.num_media, "refused": one.refused} for one in came
        ]
        screen.json({"items": items})
        return
    rows = [
        (one.run["id"], one.run["status"], one.run["name"], f"{one.num_points:,}", f"{one.num_media:,}") for one in came
    ]
    screen.table(("id", "status", "name", "points", "media"), rows)
    for one in came:
        for why, count in sorted(one.refused.items()):
            screen.say(f"{one.run['name']}: not taken, {count:,} x: {why}")

"""The command ``import``: what other tools have recorded, as runs of a server."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainyard.cli.screen import Screen
from trainyard.doors import wandb
from trainyard.doors.importing import ForeignRun, Imported, send
from trainyard.doors.tensorboard import importing as tensorboard
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError
from trainyard.sdk.sync import Stuck

FAILED, BAD_COMMAND = 1, 2
CONFLICT = 409


class Door(NamedTuple):
    """What a folder may hold of another tool, and the words about it."""

    runs: Callable[[Path], list[ForeignRun]]
    files: str
    example: str


DOORS = {
    "tensorboard": Door(tensorboard.foreign_runs, "no file below {} has tfevents in its name", "./runs"),
    "wandb": Door(wandb.foreign_runs, "no file below {} is called run-ID.wandb", "./wandb"),
}


def import_folder(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    folder, door = Path(arguments.folder), DOORS[arguments.import_command]
    if not folder.is_dir():
        screen.complain(f"{folder} is no folder. It takes one with files of the tool, such as {door.example}.")
        return BAD_COMMAND
    found = door.runs(folder)
    if not found:
        screen.complain(f"There is nothing to import: {door.files.format(folder)}.")
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

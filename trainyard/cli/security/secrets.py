"""``trainyard secrets``: values come from the standard input or a prompt, never from the command line."""

from __future__ import annotations

import argparse
import getpass
import sys

from trainyard.cli.screen import Screen, ago
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError


def listed(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = list(client.secrets(arguments.project))
    if arguments.json:
        screen.json({"items": found})
        return 0
    titles = ("name", "version", "set by", "set", "used")
    screen.table(
        titles,
        [
            (
                one["name"],
                one["version"],
                one["created_by"] or "",
                ago(one["changed_at"]),
                ago(one["used_at"]) or "never",
            )
            for one in found
        ],
    )
    return 0


def put(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    client.set_secret(arguments.name, _value(arguments.name), arguments.project)
    screen.say(f"{arguments.name} is set. Runs that begin from now on get it.")
    return 0


def delete(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    client.delete_secret(arguments.name, arguments.project)
    screen.say(f"{arguments.name} is deleted.")
    return 0


def rotate_key(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    done = client.rotate_secrets_key()
    screen.say(f"{done['sentence']} {done['versions']} values are wrapped with it.")
    return 0


def _value(name: str) -> str:
    """Return what was typed without being shown, or all of the standard input but for the end of its last line."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"Value of {name}: ")
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise ApiError(400, f"secrets set {name}: there is no value", [])
    return value

"""How a command, and a group of commands, is added to the command line, and what several of them take."""

import argparse
from collections.abc import Callable
from typing import Any

Command = Callable[..., int | None]  # the exit code; None: 0
Takes = Callable[[argparse.ArgumentParser], None]  # adds what several commands take


def command(commands: Any, name: str, run: Command, sentence: str, *takes: Takes) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=sentence, description=_about(sentence))
    made.set_defaults(run=run)
    for take in takes:
        take(made)
    return made


def group(commands: Any, name: str, sentence: str, metavar: str = "COMMAND") -> Any:
    """Return to what the commands of a group are added, which may be there already."""
    if name not in commands.choices:
        made = commands.add_parser(name, help=sentence, description=_about(sentence))
        made.verbs = made.add_subparsers(dest=f"{name}_command", required=True, metavar=metavar)
    return commands.choices[name].verbs


def _about(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}."


def speaks_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="JSON as REST answers it")


def takes_overrides(command: argparse.ArgumentParser, words: str) -> None:
    command.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", dest="overrides", help=words)

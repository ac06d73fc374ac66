"""The commands ``sweep import``, ``sweep export`` and ``sweep translate``: searches from other tools, and to them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trainyard.cli.launching import read_spec, send_code
from trainyard.cli.screen import Screen
from trainyard.contract.base import JsonObject
from trainyard.interchange.optuna_storage import read_study, write_study
from trainyard.interchange.study import renamed
from trainyard.interchange.wandb_sweeps import translate as translated
from trainyard.interchange.warm_start import warm_start
from trainyard.rest.client import Client
from trainyard.spec import Problem, ScriptSpec, SpecError, merge
from trainyard.spec.document import parse_document
from trainyard.spec.sweeps import parse_sweep

MOST_FILE_BYTES = 1_000_000


def add_exchanging(verbs: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the words of ``sweep`` that have to do with other tools, and with populations."""
    taken = command(verbs, "import", import_study, "start a sweep with the finished trials of a study of Optuna")
    taken.add_argument("storage", metavar="URL", help="Optuna's storage, such as sqlite:///studies.db")
    taken.add_argument("--study", metavar="NAME", help="which study (default: the only one)")
    taken.add_argument("--base", metavar="FILE", dest="file", required=True, help="the spec of a run, in YAML or JSON")
    taken.add_argument("--metric", action="append", metavar="NAME", help="what runs log for each objective, in order")
    taken.add_argument("--trials", type=int, default=20, metavar="N", help="how many are to come (default: 20)")
    taken.add_argument("--sampler", default="tpe", help="who proposes them (default: tpe)")
    taken.add_argument("--name", help="what the sweep is called (default: as the study)")
    taken.add_argument("--dry-run", action="store_true", help="print the sweep as YAML, and start nothing")
    taken.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", dest="overrides", help="set a field of the base"
    )
    _takes_names(taken)
    given = command(verbs, "export", export_sweep, "write the finished trials of a sweep into a storage of Optuna")
    given.add_argument("id", metavar="ID", help="the sweep's id")
    given.add_argument("storage", metavar="URL", help="Optuna's storage; a file that is not there is made")
    given.add_argument("--study", metavar="NAME", help="what the study is called (default: as the sweep)")
    _takes_names(given)
    other = command(verbs, "translate", translate, "print W&B's sweep.yaml as a sweep, and what has no counterpart")
    other.add_argument("file", metavar="FILE", help="W&B's sweep, in YAML or JSON")
    other.set_defaults(is_local=True)
    again = command(verbs, "replay", replay, "train what led to a trial of a population as one run; print its id")
    again.add_argument("id", metavar="ID", help="the sweep's id")
    again.add_argument("number", type=int, metavar="NUMBER", help="the trial's number")


def _takes_names(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--map", action="append", default=[], metavar="NAME=PATH",
        help="a parameter of the study and its path in a spec, such as lr=train.learning_rate; may be repeated",
    )  # fmt: skip


def import_study(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    study, unfinished = read_study(arguments.storage, arguments.study or "")
    if unfinished:
        screen.say(f"Left out: {unfinished:,} {'trial' if unfinished == 1 else 'trials'} that had not ended.")
    study = renamed(study, names_of(arguments.map))
    base, spec, folder = read_spec(arguments)
    document, remarks = warm_start(
        study,
        base,
        metrics=arguments.metric or [],
        trials=arguments.trials,
        name=arguments.name or "",
        sampler=arguments.sampler,
    )
    for remark in remarks:
        screen.say(remark, "yellow")
    parse_sweep(document)
    if arguments.dry_run:
        print(as_yaml({"sweep": document}), end="")
        return 0
    if isinstance(spec, ScriptSpec) and isinstance(spec.task.code, str):
        document = merge(document, {"base.task.code": send_code(client, spec, folder, screen)})
    made = client.import_sweep(document, study)
    print(made["id"], flush=True)
    num = len(study.trials)
    screen.say(f"{num:,} {'trial' if num == 1 else 'trials'} of {study.name} taken over; {arguments.trials:,} to come.")
    return 0


def export_sweep(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    study = renamed(client.sweep_study(arguments.id), {path: name for name, path in names_of(arguments.map).items()})
    if arguments.study:
        study = msgspec.structs.replace(study, name=arguments.study)
    write_study(arguments.storage, study)
    num = len(study.trials)
    screen.line(f"{study.name}: {num:,} {'trial' if num == 1 else 'trials'}")
    return 0


def translate(client: Client | None, arguments: argparse.Namespace, screen: Screen) -> int:
    document, remarks = translated(parse_document(_bounded(arguments.file), arguments.file))
    for remark in remarks:
        screen.say(remark, "yellow")
    parse_sweep(document)
    print(as_yaml({"sweep": document}), end="")
    return 0


def replay(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    print(client.replay(arguments.id, arguments.number)["id"], flush=True)
    return 0


def names_of(pairs: list[str]) -> dict[str, str]:
    """Return the pairs of ``--map NAME=PATH``. Raises SpecError."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.rpartition("=")
        if not (equals and name and path):
            raise SpecError([Problem("", f"--map takes NAME=PATH, such as lr=train.learning_rate, not {pair!r}")])
        found[name] = path
    return found


def as_yaml(document: JsonObject) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _bounded(name: str) -> bytes:
    path = Path(name)
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise SpecError([Problem("", f"{name} has more than {MOST_FILE_BYTES:,} bytes")])
        return path.read_bytes()
    except OSError as error:
        raise SpecError([Problem("", f"{name} cannot be read: {error.strerror or error}")]) from None

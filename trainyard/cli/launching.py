"""Commands that start something, and waiting for its end."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from trainyard.cli.code import code_from_git, send_code, spec_of_file
from trainyard.cli.following import follow
from trainyard.cli.screen import Screen
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import Status
from trainyard.rest import answers
from trainyard.rest.client import Client
from trainyard.spec import Problem, ScriptSpec, Spec, SpecError, load_spec_file, merge, parse_spec
from trainyard.spec.document import parse_document, parse_value


def submit(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    document, spec, folder = read_spec(arguments)
    if isinstance(spec, ScriptSpec) and isinstance(spec.task.code, str):
        pack = code_from_git if arguments.git else partial(send_code, client)
        code = pack(spec, folder, screen)
        document = merge(document, {"task.code": code})
    return _started(client, client.submit(document), arguments, screen)


def read_spec(arguments: argparse.Namespace) -> tuple[Any, Spec, Path]:
    """Return the document with its overrides, what it says, and the folder that its ``code`` is relative to. Raises
    SpecError here already, so that nothing is packed and sent for a spec that is wrong."""
    document, folder = _read(arguments.file)
    if isinstance(document, dict):
        document = merge(document, _overrides(arguments.overrides))
    return document, parse_spec(document), folder


def clone(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    made = client.act(arguments.id, "clone", {"overrides": _overrides(arguments.overrides)})
    return _started(client, made, arguments, screen)


def go_on(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    body: answers.VerbBody = {"step": arguments.step, "overrides": _overrides(arguments.overrides)}
    return _started(client, client.act(arguments.id, "continue", body), arguments, screen)


def restart(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    return _started(client, client.act(arguments.id, "restart"), arguments, screen)


def wait(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = follow(client, arguments.id, screen, timeout_s=arguments.timeout)
    if arguments.json:
        screen.json(run)
    return _exit_code(run)


def _started(client: Client, run: answers.Run, arguments: argparse.Namespace, screen: Screen) -> int:
    print(run["id"], flush=True)
    if not (arguments.wait or arguments.follow):
        return 0
    return _exit_code(follow(client, run["id"], screen, with_logs=arguments.follow))


def _exit_code(run: answers.Run) -> int:
    return 0 if run["status"] == Status.SUCCEEDED else 1


def _read(name: str) -> tuple[Any, Path]:
    """Return the document in the file ``name``, or of a program of that name, and the folder that its ``code`` is
    relative to."""
    if name == "-":
        return parse_document(sys.stdin.read(), "the standard input"), Path()
    path = Path(name)
    if (document := spec_of_file(path)) is not None:
        return document, path.parent
    try:
        return load_spec_file(path), path.parent
    except OSError as error:
        raise SpecError([Problem("", f"{name} cannot be read: {error.strerror or error}")]) from None


def _overrides(pairs: list[str]) -> JsonObject:
    found: JsonObject = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not equals:
            raise SpecError([Problem("", f"--set takes PATH=VALUE, such as train.steps=100, not {pair!r}")])
        found[path.strip()] = parse_value(text)
    return found

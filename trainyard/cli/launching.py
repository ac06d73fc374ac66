"""Commands that start something, and watching it until its end."""

import argparse
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trainyard import bundle
from trainyard.cli.following import LogReader
from trainyard.cli.screen import Screen, figure, safe
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import FINAL, Status
from trainyard.formats.words import counted, listed
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError
from trainyard.spec import Problem, ScriptSpec, Spec, SpecError, load_spec_file, merge, parse_spec
from trainyard.spec.document import parse_document, parse_value
from trainyard.spec.values.code import MAX_PATCH_CHARACTERS

PYTHON = ".py"


def submit(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    document, spec, folder = read_spec(arguments.file, overrides_of(arguments.overrides))
    run = client.submit(with_code(client, document, spec, folder, screen, is_git=arguments.git))
    if not spec.array.launches_many:
        return _started(client, run, arguments, screen)
    tag = client.run_document(run["id"])["tags"][0]
    return max(_started(client, one, arguments, screen) for one in client.runs(tag=tag, sort="created_at"))


def read_spec(file: str, changes: JsonObject) -> tuple[Any, Spec, Path]:
    """Return the document with its changes, what it says, and the folder that its ``code`` is relative to. Raises
    SpecError here already, so that nothing is packed and sent for a spec that is wrong."""
    document, folder = _read(file)
    if isinstance(document, dict):
        document = merge(document, changes)
    return document, parse_spec(document), folder


def clone(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    made = client.act(arguments.id, "clone", overrides=overrides_of(arguments.overrides))
    return _started(client, made, arguments, screen)


def go_on(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    overrides = overrides_of(arguments.overrides)
    made = client.act(arguments.id, "continue", step=arguments.step, overrides=overrides)
    return _started(client, made, arguments, screen)


def restart(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    return _started(client, client.act(arguments.id, "restart"), arguments, screen)


def wait(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = follow(client, arguments.id, screen, timeout_s=arguments.timeout)
    if arguments.json:
        screen.json(run)
    return _exit_code(run)


def _started(client: Client, run: run_answers.Run, arguments: argparse.Namespace, screen: Screen) -> int:
    print(run["id"], flush=True)
    if not (arguments.wait or arguments.follow):
        return 0
    return _exit_code(follow(client, run["id"], screen, with_logs=arguments.follow))


def _exit_code(run: run_answers.Run) -> int:
    return 0 if run["status"] == Status.SUCCEEDED else 1


def _read(name: str) -> tuple[Any, Path]:
    """Return the document in the file ``name``, or of a program of that name, and the folder that its ``code`` is
    relative to."""
    if name == "-":
        return parse_document(sys.stdin.read(), "the standard input"), Path()
    path = Path(name)
    if (document := spec_of_file(path)) is not None:
        return document, path.parent
    return loaded(path), path.parent


def loaded(path: Path, place: str = "") -> Any:
    """Return the document in a file, which stands at that place of a document. Raises SpecError."""
    try:
        return load_spec_file(path)
    except OSError as error:
        raise SpecError([Problem(place, f"{path} cannot be read: {error.strerror or error}")]) from None


def overrides_of(pairs: list[str]) -> JsonObject:
    found: JsonObject = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not equals:
            raise SpecError([Problem("", f"--set takes PATH=VALUE, such as train.steps=100, not {pair!r}")])
        found[path.strip()] = parse_value(text)
    return found


def spec_of_file(path: Path) -> JsonObject | None:
    """Return what a program alone means as a spec: a Python file, or one that may be executed; None for others."""
    if path.suffix in (".yaml", ".yml", ".json") or not path.is_file():
        return None
    if path.suffix == PYTHON:
        task: JsonObject = {"script": path.name, "code": path.name}
    elif os.access(path, os.X_OK):
        task = {"command": [f"./{path.name}"], "code": path.name}
    else:
        return None
    return {"name": path.stem, "task": task}


def with_code(
    client: Client, document: Any, spec: Spec | None, folder: Path, screen: Screen, *, is_git: bool = False
) -> Any:
    """Return the document with the code of its script sent, where that lies on this machine. Raises SpecError."""
    if not isinstance(spec, ScriptSpec) or not isinstance(spec.task.code, str):
        return document
    code = code_from_git(spec, folder, screen) if is_git else send_code(client, spec, folder, screen)
    return merge(document, {"task.code": code})


def send_code(client: Client, spec: ScriptSpec, folder: Path, screen: Screen) -> JsonObject:
    """Pack the folder, or the file, send it and return what the spec says of it. Raises SpecError where what is to be
    run is not in it."""
    source = folder / str(spec.task.code)
    try:
        code = bundle.find_code(source)
        data, sha256, names = bundle.pack_code(code, str(source))
    except bundle.BundleError as error:
        raise SpecError([Problem("task.code", str(error))]) from None
    for remark in code.remarks():
        screen.say(remark, "yellow")
    field, words = spec.task.missing_in(names)
    if field:
        raise SpecError([Problem(f"task.{field}", f"{words}: {source}")])
    screen.say(f"Sending {counted(len(names), 'file')}, {len(data) / 1e6:.1f} MB.")
    headers, query = {"Content-Type": "application/gzip"}, {"project": spec.project}
    client.call("POST", "bundles", run_answers.Bundle, params=query, content=data, headers=headers)
    return {"sha256": sha256}


def code_from_git(spec: ScriptSpec, folder: Path, screen: Screen) -> JsonObject:
    """Return the code's folder as its working tree's remote, commit and changes. Raises SpecError."""
    source = (folder / str(spec.task.code)).resolve()
    if not source.is_dir():
        raise SpecError([Problem("task.code", f"{source} is no folder of a Git repository")])
    top = Path(_git(source, "rev-parse", "--show-toplevel").strip())
    commit = _git(source, "rev-parse", "--verify", "HEAD").strip()
    url = _remote_of(source)
    patch = _git(top, "diff", "--binary", "--no-ext-diff", "--no-color", "HEAD")
    if len(patch) > MAX_PATCH_CHARACTERS:
        words = (
            f"the changes over commit {commit[:12]} have {len(patch):,} characters, more than {MAX_PATCH_CHARACTERS:,}"
        )
        raise SpecError([Problem("task.code", f"{words}: commit and push them")])
    new = [name for name in _git(source, "ls-files", "--others", "--exclude-standard", "-z").split("\0") if name]
    if new:
        screen.say(f"Not sent, since Git does not track them: {listed(new, at_most=5)}.", "yellow")
    path = source.relative_to(top).as_posix()
    found: JsonObject = {"git": url, "revision": commit}
    found |= {"path": path} if path != "." else {}
    found |= {"patch": patch} if patch else {}
    screen.say(f"Code: commit {commit[:12]} of {url}{' and changes over it' if patch else ''}.")
    return found


def _remote_of(folder: Path) -> str:
    """Return the address of the remote that the branch follows, of origin, or of the only one there is."""
    remotes = _git(folder, "remote").split()
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD").strip()
    followed = _git(folder, "config", "--default", "", "--get", f"branch.{branch}.remote").strip()
    name = next((one for one in (followed, "origin", *remotes) if one in remotes), "")
    if not name:
        words = f"the Git repository of {folder} has no remote, from which the server could fetch: push it somewhere"
        raise SpecError([Problem("task.code", words)])
    url = _git(folder, "remote", "get-url", "--", name).strip()
    return Path(url).resolve().as_uri() if url.startswith(("/", "./", "../")) else url


def _git(folder: Path, *words: str) -> str:
    try:
        ended = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True)
    except FileNotFoundError:
        raise SpecError([Problem("task.code", "there is no git on this machine")]) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise SpecError([Problem("task.code", f"git {words[0]}: {said[-1] if said else 'it failed'}")]) from None
    return ended.stdout.decode(errors="replace")


# Watching a run until it ends: its status and progress on the standard error, and its logs where asked.

POLL_S = 0.5


def follow(
    client: Client, run_id: str, screen: Screen, *, with_logs: bool = False, timeout_s: float | None = None
) -> run_answers.Run:
    """Return the run when it has ended. Raises ApiError when ``timeout_s`` is over before."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    reader = LogReader(client, run_id) if with_logs else None
    bar = StatusBar(screen) if screen.err.is_terminal and not with_logs else StatusLines(screen)
    with bar:
        while True:
            run = client.run(run_id)
            bar.show(run)
            for line in reader.new_lines() if reader else ():
                screen.say(line.text)
            if run["status"] in FINAL:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise ApiError(0, f"{run_id} is still {run['status']} after {timeout_s:g} s", [])
            time.sleep(POLL_S)
    for name, one in run["summary"].items():
        if not name.startswith("system/"):  # of machines: `trainyard show` has them
            screen.say(f"{name} {figure(one['last'])}")
    for trouble in run["troubles"]:
        screen.say(f"remark: {trouble['sentence']}")
    return run


class StatusLines(AbstractContextManager["StatusLines"]):
    """Lines of a run's status: one for each change, and one for each tenth of the way."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last: tuple[str, int] | None = None

    def __exit__(self, *_: object) -> None: ...

    def show(self, run: run_answers.Run) -> None:
        now = (run["status"], int(10 * (run["progress"] or 0)))
        if now == self._last:
            return
        reason = run["reason"]["sentence"] if self._last is None or self._last[0] != run["status"] else ""
        self._last = now
        step = f" step {run['step']:,} of {run['steps']:,}" if run["step"] is not None and run["steps"] else ""
        self._screen.say(f"{run['status']}{step} {reason}".rstrip())


class StatusBar(StatusLines):
    """A bar that grows, under the status."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=screen.err
        )
        self._task = self._progress.add_task("…", total=None)

    def __enter__(self) -> "StatusBar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, run: run_answers.Run) -> None:
        status = safe(run["status"])
        self._progress.update(self._task, description=status, total=run["steps"], completed=run["step"] or 0)

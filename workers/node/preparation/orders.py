"""Preparation of an order on this node: its code, its interpreter, its secrets. All is there before anything starts, or
the order is refused in words; a spare node prepares for runs that may come."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import httpx
import structlog

from trainyard.bundle import BundleError, unpack
from trainyard.contract.desired import StandbyRun
from trainyard.contract.machines import MAX_KEPT
from trainyard.contract.orders import Locked, Order
from trainyard.spec.sections.environment import secret_references
from trainyard.spec.sections.tasks import code_program
from trainyard.spooling.held_folder import HeldFolder, remove_tree
from trainyard.spooling.plain_files import write_private
from workers.attempt.folder import AttemptFolder
from workers.containers.podman import find_podman, podman_environment, remove_leftovers
from workers.environments.documents import NodeTools
from workers.environments.pip_files import configuration
from workers.environments.store import EnvironmentStore
from workers.node.server_client import ServerClient, problem_of
from workers.sandbox.node import NO_ISOLATION, Isolation
from workers.supervisor.ranks.environment import path_of

log = structlog.get_logger(__name__)

REFUSED = 409  # the server has no such secret
WARMING = "its warm process is starting"
MAX_PROBLEM = 500
LIMIT = "TRAINYARD_ENVIRONMENTS_LIMIT_BYTES"
DEFAULT_LIMIT_BYTES = 50 * 2**30
FETCHED = re.compile(r"fetched-([0-9a-f]{16})-")  # folders of data from a URL, whose key it is
CONDAS = ("micromamba", "mamba", "conda")


class CannotRunHere(Exception):
    """This attempt cannot run here, and trying again would not help. The message is one sentence."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def lay_out_code(order: Order, folder: AttemptFolder, cache: Path, source: ServerClient) -> None:
    """Unpack the order's bundle, which is fetched once per content, into the attempt's code folder and check that what
    is to be run is in it.

    Raises CannotRunHere, and what ``source`` raises when the server does not answer.
    """
    remove_tree(folder.code)
    folder.code.mkdir(mode=0o700, parents=True)
    if order.code is not None:
        try:
            unpack(fetch_bundle(order.code.sha256, cache / "bundles", source), folder.code)
        except BundleError as error:
            raise CannotRunHere("code_refused", f"The run's code was refused on {order.node_name}: {error}") from error
    _check_program(order, folder.code)


def _check_program(order: Order, code: Path) -> None:
    task = order.spec["task"]
    script, program = task.get("script"), code_program(task.get("command") or [])
    if script and not (code / script).is_file():
        raise CannotRunHere("script_missing", f"The script {script} is not in the run's code.")
    if program and not (code / program).is_file():
        sentence = f"The file {program}, which task.command names, is not in the run's code."
        raise CannotRunHere("script_missing", sentence)
    if program:
        (code / program).chmod(0o755)  # a folder that a browser uploads comes without modes


def fetch_bundle(sha256: str, cache: Path, source: ServerClient) -> bytes:
    """Return the bundle, from the node's cache where it is there. Raises CannotRunHere, and what ``source`` raises."""
    path = cache / sha256
    if path.exists() and hashlib.sha256(data := path.read_bytes()).hexdigest() == sha256:
        return data
    try:
        data = source.bundle(sha256)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != 404:
            raise
        raise CannotRunHere("code_missing", f"The server has no code bundle {sha256[:12]} for this node.") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CannotRunHere("code_damaged", f"The server's code bundle {sha256[:12]} does not have that SHA-256.")
    write_private(path, data)
    return data


def check_interpreter(order: Order, isolation: Isolation = NO_ISOLATION) -> None:
    """Raise CannotRunHere unless the order's ``task.python``, and the program of its ``task.command``, may be run
    here."""
    task = order.spec["task"]
    own_path = (task.get("environment") or {}).get("PATH")
    if python := task.get("python"):
        if "/" not in python:
            _check_name(python, own_path, order.node_name, isolation)
        else:
            _check_path(python, order.node_name, isolation)
    program = str((task.get("command") or [""])[0])
    if program and "/" not in program and "${" not in program:
        _check_name(program, own_path or path_of(task), order.node_name, isolation, "task.command")


def is_program(python: str, isolation: Isolation, path: str = "") -> bool:
    """Return whether the ranks of a project may run it: a path, or a name on ``path``. The node worker may be root, who
    sees more than they do and must not tell."""
    if "/" not in python:
        folders = filter(None, (path or os.environ.get("PATH", os.defpath)).split(os.pathsep))
        return any(is_program(f"{folder}/{python}", isolation) for folder in folders)
    try:
        mode = 0 if isolation.problem_of(python) else Path(python).stat().st_mode
    except OSError:  # it is not there, or a folder on the way may not be passed
        return False
    may_run = mode & stat.S_IXOTH if isolation.is_other_user else os.access(python, os.X_OK)
    return stat.S_ISREG(mode) and bool(may_run)


def _check_name(name: str, own_path: str | None, node: str, isolation: Isolation, field: str = "task.python") -> None:
    """``own_path`` is the PATH that the spec gives its ranks, where it does: that is where a rank will look."""
    path = own_path or os.environ.get("PATH", os.defpath)
    if not is_program(name, isolation, path):
        raise CannotRunHere(
            "program_missing" if field == "task.command" else "python_missing",
            f"There is no program {name} on the PATH of {node} ({path[:200]}), which {field} names: install it "
            f"there, or name {'it' if field == 'task.command' else 'an interpreter'} by its whole path.",
        )


def _check_path(python: str, node: str, isolation: Isolation) -> None:
    if problem := isolation.problem_of(python):  # before anything is said of what is there
        raise CannotRunHere("python_not_executable", f"task.python on {node}: {problem}.")
    path = Path(python)
    try:
        is_there, is_file = path.exists(), path.is_file()
    except OSError:  # a folder on the way that we may not enter
        is_there = is_file = False
    if not is_there:
        words = "make the environment there (python -m venv), or name an interpreter that is."
        raise CannotRunHere("python_missing", f"There is no file {path} on {node}, which task.python names: {words}")
    if not is_program(python, isolation):
        what = "may not be run by the user of the ranks" if is_file else "is a folder and no program"
        raise CannotRunHere(
            "python_not_executable",
            f"{path} on {node}, which task.python names, {what}: name an interpreter, such as its bin/python.",
        )


def fetch_secrets(order: Order, source: ServerClient) -> Locked | None:
    """Return the secrets, which are not in the order that lies on the disk: locked for this node, None where the order
    has none. Raises CannotRunHere, and what ``source`` raises where the server does not answer."""
    has_notebook = bool(order.spec.get("task", {}).get("notebook"))  # it has a token
    if not (secret_references(order.spec) or has_notebook or order.has_storage_keys):
        return None
    try:
        return source.secrets(order.attempt)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == REFUSED:
            words = problem_of(error.response, "The server does not have a secret that the run names.")
            raise CannotRunHere("secret_missing", words[:500]) from error
        raise


class Standby:
    """Preparations of a spare node for runs that may come here. ``take`` is called with what is wanted now; ``prepare``
    does what is left of it, in a thread of its own."""

    def __init__(
        self, cache: Path, source: ServerClient, is_warm: Callable[[], bool], isolation: Isolation = NO_ISOLATION
    ) -> None:
        self._cache, self._source, self._is_warm, self._isolation = cache, source, is_warm, isolation
        self._wanted: dict[str, StandbyRun] = {}
        self._found: dict[str, str] = {}  # by run: why it is not prepared, or ""

    def take(self, wanted: Sequence[StandbyRun]) -> None:
        self._wanted = {one.run: one for one in wanted}

    def prepare(self) -> None:
        """Prepare for these runs. Steps that failed are tried again."""
        wanted = self._wanted
        self._found = {run: why for run, why in self._found.items() if run in wanted}
        for run, one in wanted.items():
            if self._found.get(run) != "":
                self._found[run] = self._prepare(one)
                if not self._found[run]:
                    log.info("standby.ready", run=run)

    def status(self) -> dict[str, str]:
        """Return by run why it could not begin here as quickly as a restart; empty where it could."""
        found = {run: self._found[run] for run in self._wanted if run in self._found}
        return found if self._is_warm() else dict.fromkeys(found, WARMING)

    def _prepare(self, one: StandbyRun) -> str:
        try:
            if one.code is not None:
                fetch_bundle(one.code.sha256, self._cache / "bundles", self._source)
        except CannotRunHere as refusal:
            return str(refusal)[:MAX_PROBLEM]
        except (httpx.HTTPError, OSError) as error:
            return f"its code cannot be fetched: {error}"[:MAX_PROBLEM]
        if one.python and not is_program(one.python, self._isolation):
            return f"there is no program {one.python} here, which task.python names"[:MAX_PROBLEM]
        return ""


class Environments:
    """What the node can build environments with, and their room on its disk. Found out once, as the node worker starts.
    Supervisors build; here is only what no single attempt does."""

    def __init__(self, home: Path, isolation: Isolation) -> None:
        self._home = home
        self._store = EnvironmentStore(home)
        self.tools = find_tools(os.environ, isolation)
        self._store.record_tools(self.tools)
        self._limit_bytes = limit_bytes()
        self.kept: dict[str, int] | None = None  # as `Inventory.kept`

    def make_room(self) -> None:
        """Delete what a killed builder left, and what was used least recently where all take more than the limit."""
        self._store.remove_unfinished()
        self._store.make_room(self._limit_bytes)
        if self.tools.podman:
            remove_leftovers(self.tools.podman, self._home)
        records = [(place.folder.name, place.record) for place in self._store.places()]
        found = {f"{name}/{one.key}": one.bytes if one.image else 0 for name, one in records if one and one.key}
        for path in sorted((self._home / "cache" / "projects").glob("*/fetched-*")):
            if name := FETCHED.match(path.name):
                found[f"{path.parent.name}/{name[1]}"] = 0
        self.kept = dict(islice(found.items(), MAX_KEPT))


def limit_bytes() -> int:
    """Return the setting. Raises ValueError for one that is no number of bytes."""
    text = os.environ.get(LIMIT, "")
    if text and not text.isdecimal():
        raise ValueError(f"{LIMIT} is {text!r}: it is a number of bytes, such as {DEFAULT_LIMIT_BYTES}")
    return int(text) if text else DEFAULT_LIMIT_BYTES


def find_tools(environment: Mapping[str, str], isolation: Isolation = NO_ISOLATION) -> NodeTools:
    """Return the node's programs. One that the user of a project's ranks may not run counts as missing."""
    prefix = Path(sys.prefix)
    path = environment.get("PATH", os.defpath)
    return NodeTools(
        uv=_first([*_on_path(["uv"], path), prefix / "bin" / "uv", prefix / "tools" / "bin" / "uv"], isolation),
        conda=_first(_on_path(CONDAS, path), isolation),
        podman=find_podman(environment),
        podman_environment=podman_environment(environment),
        pip=configuration(environment, prefix),
    )


def _on_path(names: Iterable[str], path: str) -> list[Path]:
    return [Path(found) for name in names if (found := shutil.which(name, path=path))]


def _first(candidates: Iterable[Path], isolation: Isolation) -> str:
    usable = (os.fspath(one) for one in candidates if os.access(one, os.X_OK) and one.is_file())
    return next((one for one in usable if not isolation.problem_of(one)), "")


FOLDER = "user/torch_extensions"  # torch's place below XDG_CACHE_HOME


def remove_locks(cache: Path) -> None:
    """Remove the locks of compilations; the caller knows that no rank of the project compiles here. torch's lock is a
    file that its holder removes: that of a rank which was killed would keep all later ones waiting for ever."""
    with contextlib.suppress(OSError), HeldFolder.open(cache) as held:
        for name in [name for name, _ in held.walk(below=FOLDER) if name.endswith("/lock")]:
            held.remove(name)
            log.info("compilation.lock_removed", name=name)

"""Outside of Trainyard: which processes are one training, and what a spool says of where it came from.

A *local run* is a folder of spools, named by its id. The processes of one training find the same id without talking
to each other: children inherit it, and the ranks of a launcher derive it from what only they share.
"""

import contextlib
import hashlib
import os
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import NoReturn

from trainyard.contract.records import Begin

VARIABLE = "TRAINYARD_LOCAL_RUN"
RESUMES = ("allow", "must", "never", "auto")
MAX_ERROR_CHARS = 300
INTERRUPTED = "interrupt"
ERROR = "error: "  # before what ended a script, in the reason of its end record

_ID = re.compile(r"[0-9a-f]{32}")
_seed = uuid.uuid4().hex  # forked children have the same
_num_begun = 0
_exit_code: object = None  # of the exit that ends this process
_own = (0, "")  # the process that began a local run, and its id: what it put into the environment for its children


def begin(name: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the id of the local run that this process takes part in, 32 hex digits, and let children inherit it.

    A process that began a local run itself begins another one each time; one that inherited it stays in it.
    """
    global _num_begun, _own
    inherited = environ.get(VARIABLE, "")
    if inherited and (os.getpid(), inherited) != _own:
        return inherited if _ID.fullmatch(inherited) else _digest(inherited)
    found = _digest(_launcher(environ) or f"{_family()} {name or ''}", str(_num_begun))
    _num_begun += 1
    _own = (os.getpid(), found)
    os.environ[VARIABLE] = found
    return found


def wanted(id: str | None, resume: str | bool | None, *, name: str | None, project: str | None, folder: Path) -> str:
    """Return the local id of the run that ``init`` is asked to go on with, or to begin; "" where it is asked for none.
    Raises ValueError for a word that ``resume`` does not take, and where it refuses."""
    resume = {None: "allow", True: "auto", False: "never"}.get(resume, resume)  # type: ignore[arg-type]
    if resume not in RESUMES:
        raise ValueError(f"init: resume={resume!r} is none of {', '.join(RESUMES)}")
    if "TRAINYARD_SPOOL" in os.environ:
        return ""  # where the run goes on is the server's to say
    if id is None:
        if resume == "must":
            raise ValueError("init: resume='must' needs an id")
        if resume == "auto" and os.environ.get(VARIABLE) is None:
            with contextlib.suppress(OSError):
                known = note_of(name, folder).read_text().strip()
                return known if _ID.fullmatch(known) else ""
        return ""
    found = id if _ID.fullmatch(id) else _digest(id, project or "")
    exists = (folder / found).is_dir()
    if exists and resume == "never" and (os.getpid(), found) != _own:
        raise ValueError(f"init: the run {id!r} is in {folder} already, and resume='never' forbids to go on with it")
    if not exists and resume == "must":
        raise ValueError(f"init: there is no run {id!r} in {folder}, and resume='must' forbids to begin it")
    return found


class Exit(SystemExit):
    """Exception that ``sys.exit`` raises in a local run: nothing else says at the end with which code the interpreter
    leaves.

    One that nobody caught is deleted by the interpreter itself, with no frame of Python below.
    """

    def __del__(self) -> None:
        global _exit_code
        try:
            sys._getframe(1)
        except ValueError:
            _exit_code = self.code


def watch_exit() -> None:
    """Let ``reason_of_exit`` know the code that a script gives to ``sys.exit``."""
    sys.exit = _exit


def _exit(status: str | int | None = None, /) -> NoReturn:
    raise Exit(status)


def take(local_id: str) -> None:
    """Let this process's run be that one, and its children take part in it."""
    global _own
    _own = (os.getpid(), local_id)
    os.environ[VARIABLE] = local_id


def note_of(name: str | None, folder: Path) -> Path:
    """Return the file that has the id of the run of this name that ``resume="auto"`` goes on with, until it ends."""
    return folder / f"unfinished-{_digest(name or '')[:12]}"


def is_own(local_id: str) -> bool:
    """Return whether this process began that run itself, so that it may end it and begin another."""
    return bool(local_id) and (os.getpid(), local_id) == _own


def leave() -> None:
    """The run is finished: what this process starts from now on is another training."""
    if (os.getpid(), os.environ.get(VARIABLE)) == _own:
        del os.environ[VARIABLE]


def begin_record(
    name: str | None, local_id: str, project: str | None = None, environ: Mapping[str, str] = os.environ
) -> Begin:
    """Return the first record of this process; ``local_id`` is empty inside of Trainyard."""
    begin = Begin(
        rank=rank_of(environ),
        node=environ.get("TRAINYARD_NODE", ""),
        role="rank" if "TRAINYARD_SPOOL" in environ else "script",
        name=_text(name),
    )
    if local_id:
        restart = environ.get("TORCHELASTIC_RESTART_COUNT", "")
        begin.local = local_id
        begin.script = "" if hasattr(sys, "ps1") or not sys.argv[0] else _text(absolute(sys.argv[0])[:500])
        begin.host = host_name()
        begin.restart = int(restart) if restart.isdecimal() else 0
        begin.project = _text(project)
    return begin


def rank_of(environ: Mapping[str, str] = os.environ) -> int:
    """Return the rank that a launcher gave to this process; -1 for none."""
    rank = environ.get("RANK") or environ.get("TRAINYARD_RANK", "")
    return int(rank) if rank.isdecimal() else -1


def _text(value: object) -> str:
    """Return what a script gave as text that can be encoded: half of a surrogate pair cannot."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the path from the root, also when the present folder was deleted: then as it is."""
    try:
        return os.path.abspath(path)  # noqa: PTH100  # Path.absolute() keeps its dots
    except OSError:
        return os.fspath(path)


def host_name() -> str:
    return os.uname().nodename[:255]


def reason_of(kind: type[BaseException], error: object) -> str:
    """Return the reason of an end record for what ended a script."""
    if issubclass(kind, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or (isinstance(code, int) and code == 0):
            return "exit"
        return _reason(f"exit code {code}", "") if isinstance(code, int) else _reason("exit code 1", code)
    return _reason(kind.__name__, error)


def reason_of_exit() -> str:
    """Return why this process ends, as far as Python knows: "exit", "interrupt", or "error: " and what it was."""
    kind, value = getattr(sys, "last_type", None), getattr(sys, "last_value", None)
    if kind is None:
        leaving = sys.exc_info()[1]  # a child of multiprocessing ends while it handles its exit
        return reason_of(SystemExit, leaving if isinstance(leaving, SystemExit) else SystemExit(_exit_code))
    return "exit" if hasattr(sys, "ps1") else reason_of(kind, value)  # at a prompt an error ends nothing


def _reason(what: str, value: object) -> str:
    try:
        words = f"{what}: {value}".strip(": ")
    except Exception:  # somebody's own __str__, while the interpreter ends
        words = what
    return f"{ERROR}{words.splitlines()[0][:MAX_ERROR_CHARS]}"


def _launcher(environ: Mapping[str, str]) -> str:
    """Return a text that the ranks of one torchrun share, and those of the next one do not; empty without torchrun."""
    run_id = environ.get("TORCHELASTIC_RUN_ID")
    if run_id is None:
        return ""
    error_file = environ.get("TORCHELASTIC_ERROR_FILE", "")
    if environ.get("GROUP_WORLD_SIZE") == "1" and error_file:
        # <a folder of this launcher alone>/attempt_<n>/<rank>/error.json: also what was restarted belongs to it.
        return f"torchrun {run_id} {PurePath(error_file).parent.parent.parent}"
    return f"torchrun {run_id} {environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}"


def _family() -> str:
    """Return a text that a process and its children share: multiprocessing hands its key on to all, forking copies the
    seed."""
    process = sys.modules.get("multiprocessing.process")
    return _digest(bytes(process.current_process().authkey).hex()) if process is not None else _seed


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(("trainyard local run", *parts)).encode()).hexdigest()[:32]

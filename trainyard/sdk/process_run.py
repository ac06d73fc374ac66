"""The process's run: `init` makes it, and what is logged by the module goes there."""

import atexit
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from trainyard.contract.records import AnyRecord
from trainyard.sdk import local_run as local
from trainyard.sdk.buffers import Groups
from trainyard.sdk.run import Run
from trainyard.sdk.warning import logger

LOCAL_FOLDER = "trainyard-spool"
Mode = Literal["online", "offline", "disabled"]

_run: Run | None = None


def init(
    name: str | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    project: str | None = None,
    config: Any = None,
    tags: Iterable[str] | None = None,
    notes: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    id: str | None = None,
    resume: str | bool | None = None,
    mode: Mode = "online",
) -> Run:
    """Return this process's Run: made at the first call, after ``finish``, and under another name or id, which ends it.

    Inside a Trainyard rank the spool lies where the node wants it (``TRAINYARD_SPOOL``), for one run. Elsewhere all
    processes of one training write to a folder below ``folder``, else ``./trainyard-spool`` (see ``trainyard sync``),
    and ``project`` is where the run is sent. ``config`` is a dictionary, a namespace of argparse, a dataclass or a
    configuration of OmegaConf; see ``Run.config``.

    ``id``: the same id in the same folder or on the same server is the same run. ``resume``: "allow" (as without) goes
    on with it or begins it, "must" refuses to begin it, "never" to go on with it, "auto" goes on with the run of this
    name that did not end in this folder. ``mode``: "online" sends while ``TRAINYARD_URL`` names a server, "offline"
    only writes, "disabled" does nothing at all. Raises ValueError for other words, and where ``resume`` refuses.
    """
    global _run
    if mode not in get_args(Mode):
        raise ValueError(f"init: mode={mode!r} is none of {', '.join(get_args(Mode))}")
    above = Path(folder or LOCAL_FOLDER)
    wanted = local.wanted(id, resume, name=name, project=project, folder=above)
    is_other = _run is not None and (
        (name is not None and _run.name not in (None, name))
        or bool(wanted and _run.local_id and wanted != _run.local_id)
    )
    if _run is not None and is_other and local.is_own(_run.local_id):
        _run.finish()  # nothing where it is finished already
    if _run is None or _run.is_finished:
        if mode == "disabled":
            _run = Disabled(name, above)
        elif spool := os.environ.get("TRAINYARD_SPOOL"):
            _run = Run(name, Path(spool))
        else:
            local_id = wanted or local.begin(name)
            if wanted:
                local.take(wanted)
            local.watch_exit()
            _run = Run(name, above / local_id, local_id, project, is_sent=mode == "online")
            if resume in ("auto", True):
                _run.note_to_resume(local.note_of(name, above))
    elif name is not None and name != _run.name:
        logger.warning("trainyard: init(%r) goes on with the run that this process already has", name)
    _run.describe(config=config, tags=tags, notes=notes, group=group, job_type=job_type)
    return _run


def current() -> Run:
    """Return the run of the newest ``init``. Raises RuntimeError where there was none."""
    if _run is None:
        raise RuntimeError("there is no run yet: call trainyard.init() first")
    return _run


def log(values: Mapping[str, Any], step: int | None = None, **options: Any) -> None:
    """``Run.log`` of the newest run. Raises RuntimeError before ``init``."""
    current().log(values, step, **options)


def finish(exit_code: int = 0) -> None:
    """``Run.finish`` of the newest run; nothing where there is none."""
    if _run is not None:
        _run.finish(exit_code)


class Disabled(Run):
    """A run that takes everything and keeps nothing."""

    def log(self, *_: Any, **__: Any) -> None: ...
    def log_rows(self, groups: Groups) -> None: ...
    def report(self, record: AnyRecord) -> None: ...
    def _rouse(self) -> None: ...

    def flush(self, *_: AnyRecord) -> bool:
        return True

    def _save(self, files: dict[str, Path]) -> list[Path]:
        return []


def _end_at_exit() -> None:
    if _run is not None:
        _run._end(local.reason_of_exit())


def _after_fork_in_child() -> None:
    if _run is not None:
        _run._become_another_producer()


atexit.register(_end_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)

"""Following a library's calls: its own call comes first, and what it took without an error is logged by the SDK. No
trouble of the mirror reaches the script: it costs one warning."""

import functools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import trainyard
from trainyard.sdk import Run, process_run
from trainyard.sdk.buffers import Groups
from trainyard.sdk.warning import WarnOnce
from trainyard.shadow import PROJECT, VARIABLE

OURS = "trainyard.log"


class Shadow:
    """The run of this process that all libraries are mirrored to.

    It ends when all that began in it has ended: runs of W&B's or MLflow's, writers of TensorBoard's. What comes then
    begins another. A run that the script itself made is joined and never ended.
    """

    def __init__(self) -> None:
        self.only = os.environ.get(VARIABLE) == "only"
        self.warn = WarnOnce()
        self._lock = threading.RLock()
        self._start_empty()
        self._is_exiting = False
        os.register_at_fork(after_in_child=self._begin_child)
        threading._register_atexit(self._leave)  # type: ignore[attr-defined]  # before what others do at the exit
        self._log: Callable[..., None] = Run.log
        Run.log = self._own_log()  # type: ignore[method-assign]

    def _start_empty(self) -> None:
        self._run: Run | None = None
        self._is_ours = False
        self._num_open = 0
        self._owners: dict[str, str] = {}  # who logs a name: one library alone, so that no point comes twice

    def _begin_child(self) -> None:
        self._lock = threading.RLock()
        self._num_open = 0  # what the parent has begun ends there

    def _leave(self) -> None:
        self._is_exiting = True  # how the script ends is the SDK's to say

    def _own_log(self) -> Callable[..., None]:
        original = self._log

        @functools.wraps(original)
        def log(run: Run, values: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
            if isinstance(values, Mapping):
                self._owners.update(dict.fromkeys(values, OURS))
            original(run, values, *arguments, **options)

        return log

    def begin(self, **told: Any) -> Run:
        """Return the run, in which one thing more has begun. ``told``: see ``trainyard.init``."""
        with self._lock:
            run = self.run(**told)
            self._num_open += 1
            return run

    def run(self, **told: Any) -> Run:
        """Return the run: that of the script, or else made now."""
        with self._lock:
            known = process_run._run
            if known is None or known.is_finished:
                self._start_empty()
                self._run = trainyard.init(**told, project=os.environ.get(PROJECT))
                self._is_ours = True
                return self._run
            if known is not self._run:
                self._run, self._is_ours, self._num_open = known, False, 0
            if config := told.pop("config", None):
                known.config.update(config, allow_change=True)
            known.describe(**{name: told.get(name) for name in ("tags", "notes", "group", "job_type")})
            return known

    def end(self, exit_code: int = 0) -> None:
        """One of the things that began has ended."""
        with self._lock:
            self._num_open -= 1
            is_over = self._num_open <= 0 and self._is_ours and not self._is_exiting
            if is_over and self._run is not None:
                self._run.finish(exit_code)

    def log(
        self, who: str, values: Mapping[str, Any], step: int, labels: Any = None, time: float | None = None
    ) -> None:
        """Log them, but names that somebody else logs."""
        run = self._run
        if run is None or run.is_finished:
            run = self.run()
        owner_of = self._owners.setdefault
        for name in values:
            if owner_of(name, who) != who:
                values = self._own(who, values)
                break
        if values:
            self._log(run, values, step, labels, time=time)

    def log_rows(self, who: str, groups: Groups) -> None:
        """Log rows that are packed already, in the same way."""
        if kept := self._own(who, {names[0]: None for names, _ in groups}):
            run = self._run if self._run is not None and not self._run.is_finished else self.run()
            run.log_rows({key: rows for key, rows in groups.items() if key[0][0] in kept})

    def _own(self, who: str, values: Mapping[str, Any]) -> dict[str, Any]:
        owners = {name: self._owners.setdefault(name, who) for name in values}
        for name, owner in owners.items():
            if owner != who:
                self.warn(f"{who} {name}", f"shadow: {name!r} comes from {owner}, and not from {who} a second time")
        return {name: value for name, value in values.items() if owners[name] == who}


shadow = Shadow()


def after(owner: Any, name: str, act: Callable[..., object]) -> None:
    """Have ``act(answer, *arguments, **options)`` called behind each call of ``owner.name`` that did not raise."""
    original = getattr(owner, name, None)
    if original is None:
        shadow.warn(f"{owner} {name}", f"shadow: this version has no {name} of {owner!r:.80}; it is not mirrored")
        return

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        answer = original(*arguments, **options)
        try:
            act(answer, *arguments, **options)
        except Exception as error:  # whatever is wrong, the script goes on
            trouble(name, error)
        return answer

    setattr(owner, name, call)


def trouble(name: str, error: Exception) -> None:
    shadow.warn(f"{name} failed", f"shadow: {name} is not mirrored: {error!r:.300}; the script goes on")


def leave_out(who: str, owner: Any, names: str) -> None:
    """Say once of each of these methods that it is not mirrored, when it is called."""
    for name in names.split():

        def say(*_: Any, name: str = name, **__: Any) -> None:
            shadow.warn(f"{who}.{name}", f"shadow: {who}.{name} is not mirrored; it stays where {who} keeps it")

        if hasattr(owner, name):
            after(owner, name, say)

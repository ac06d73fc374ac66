"""W&B: what its runs log, their configuration, summary and end. Steps are kept as W&B keeps them: values of one step
come together once it is over, the last of a name counts, and what comes for a step that is over is dropped.

Values and calls are translated as for a script that imports ``trainyard.wandb``.
"""

import atexit
import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainyard.formats import media
from trainyard.sdk.buffers import flat, number
from trainyard.shadow.mirror import after, shadow, trouble
from trainyard.wandb import Run as Twin
from trainyard.wandb.data_types import loggable

WHO = "W&B"
PLAIN = frozenset((int, float, bool))
INTERNAL = frozenset(("_step", "_timestamp", "_runtime", "_wandb"))
TOLD = "watch alert define_metric save log_code log_artifact log_model link_model link_artifact upsert_artifact"
mirrors: "dict[int, Mirror]" = {}  # by the run, its configuration and its summary, as long as it lives


def follow(module: Any) -> None:
    """Follow the runs, which ``wandb.log`` and other libraries log to."""
    from wandb.sdk import wandb_config, wandb_run, wandb_summary

    classes: list[Any] = [wandb_run.Run]
    if shadow.only:
        from wandb.sdk.lib.noop_run import NoopRun

        classes, original = [NoopRun], module.init
        module.init = functools.wraps(original)(lambda *given, **told: original(*given, **{**told, "mode": "disabled"}))
    after(module, "init", begin)
    for run in classes:
        run.log = followed(run.log)
        after(run, "finish", end)
        after(run, "__exit__", lambda _, run, kind=None, *__, **___: end(None, run, int(kind is not None)))
        for name in TOLD.split():
            after(run, name, lambda _, run, *given, name=name, **told: tell(run, name, *given, **told))
    for name in ("update", "setdefaults", "__setitem__", "__setattr__"):
        after(wandb_config.Config, name, configured)
    after(wandb_summary.SummaryDict, "update", summed)


class Mirror:
    """One run of W&B's."""

    def __init__(self, run: Any, own: Any, labels: Mapping[str, str]) -> None:
        self.run, self.twin, self._labels = run, Twin(own, mode="online"), labels
        self.lock = threading.RLock()  # W&B's call and ours, so that both see the calls of all threads in one order
        self._step = int(getattr(run, "_starting_step", 0) or 0)
        self._row: dict[str, Any] = {}  # of the step that is not over
        self.is_logging = False  # W&B keeps tables as artifacts, too

    def log(self, data: Mapping[str, Any], step: int | None, commit: bool | None) -> None:
        if step is not None:
            if step < self._step:
                shadow.warn("wandb step", f"shadow: W&B drops what comes for a step that is over ({step}); so do we")
                return
            if step > self._step:
                self.flush(step)
        must_flush = step is None if commit is None else commit
        is_plain = PLAIN.issuperset(map(type, data.values())) and INTERNAL.isdisjoint(data)
        if must_flush and is_plain and not self._row:  # as most calls are
            shadow.log(WHO, data, self._step, self._labels)
            self._step += 1
            return
        for name, value in flat(data).items():
            if name not in INTERNAL:
                self._row[name] = value if type(value) in PLAIN else translated(value)
        if must_flush:
            self.flush(self._step + 1)

    def flush(self, next_step: int) -> None:
        """End the step."""
        row, self._row = self._row, {}
        if row:
            shadow.log(WHO, row, self._step, self._labels)
        self._step = next_step


def begin(run: Any, *_: Any, **told: Any) -> None:
    if id(run) in mirrors or (run.disabled and not shadow.only):
        return
    tags = [*(run.tags or ()), *([run.project] if run.project not in (None, "", "uncategorized", "dummy") else [])]
    own = shadow.begin(
        name=None if shadow.only and str(run.name).startswith("dummy-") else run.name,
        id=run.id if run.resumed else told.get("id"), tags=tags, notes=run.notes, group=run.group or None,
        job_type=run.job_type or None, config=dict(run.config.items()),
    )  # fmt: skip
    mirror = Mirror(run, own, {"run": str(run.name or run.id)} if mirrors else {})  # beside one that is open
    for one in (run, run.config, run.summary):
        mirrors[id(one)] = mirror


def followed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def log(self: Any, data: dict[str, Any], step: int | None = None, commit: bool | None = None, **other: Any) -> Any:
        mirror = mirrors.get(id(self))
        if mirror is None:
            return original(self, data, step, commit, **other)
        with mirror.lock:
            mirror.is_logging = True
            try:
                answer = original(self, data, step, commit, **other)
            finally:
                mirror.is_logging = False
            try:
                mirror.log(data, step, commit)
            except Exception as error:  # whatever is wrong, the script goes on
                trouble("wandb.log", error)
            return answer

    return log


def end(_: Any, run: Any, exit_code: int | None = None, *__: Any, **___: Any) -> None:
    mirror = mirrors.pop(id(run), None)
    if mirror is None:
        return
    for one in (run.config, run.summary):
        mirrors.pop(id(one), None)
    mirror.flush(0)
    mirror.twin.own.describe(tags=run.tags or (), notes=run.notes)
    shadow.end(exit_code or 0)


def tell(run: Any, name: str, *given: Any, **told: Any) -> None:
    """Have the same call made of the run's twin, which does it or says that it is left out."""
    if (mirror := mirrors.get(id(run))) is not None and not mirror.is_logging:
        getattr(mirror.twin, name)(*given, **told)


def configured(_: Any, config: Any, *__: Any, **___: Any) -> None:
    if (mirror := mirrors.get(id(config))) is not None:
        mirror.twin.config.update(dict(config.items()), allow_val_change=True)


def summed(_: Any, summary: Any, values: Mapping[str, Any], *__: Any, **___: Any) -> None:
    if (mirror := mirrors.get(id(summary))) is not None and not shadow.only:
        for name, value in values.items():
            mirror.twin.summary[name] = value


def translated(value: Any) -> Any:
    """Return what the SDK takes for a value of W&B's."""
    kind = type(value).__name__ if type(value).__module__.startswith("wandb.") else ""
    if isinstance(value, list | tuple) and value and type(value[0]).__module__.startswith("wandb."):
        return [translated(one) for one in value]
    if kind == "CustomChart":
        value, kind = value.table, "Table"
    if kind in ("Image", "Audio", "Video"):
        path = getattr(value, "_path", None)
        file = Path(path) if path else value.image
        return getattr(media, kind)(file, caption=str(value._caption or ""))
    if kind == "Histogram":
        return media.Histogram(counts=value.histogram, edges=value.bins)
    if kind == "Table":
        return media.Table(value.columns, value.data)
    if kind == "Html":
        return media.Html(value.html if isinstance(getattr(value, "html", None), str) else Path(value._path))
    if kind:
        return media.Text(f"A {kind} was logged here, which Trainyard does not keep.")
    value = loggable(value)
    return number(value) if getattr(value, "shape", None) in ((), (1,)) else value


def flush_all() -> None:
    for mirror in dict.fromkeys(mirrors.values()):
        mirror.flush(0)


atexit.register(flush_all)  # the SDK, which registered before, writes the end after it

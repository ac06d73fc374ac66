"""W&B's names for a Trainyard run: a script goes on with ``import trainyard.wandb as wandb`` and no other change.

What a run can keep is translated. A name that only asks to keep something that Trainyard does not keep
(``log_artifact``) warns once, and training goes on; one whose result the script would need (``use_artifact``, ``Api``)
raises ``Unsupported``. No name is ignored in silence. The table is in docs/coming_from_wandb.md.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import trainyard
from trainyard.sdk import Run as OwnRun
from trainyard.sdk.description import Config as OwnConfig
from trainyard.sdk.description import Summary
from trainyard.wandb import data_types
from trainyard.wandb.data_types import left_out, loggable, refused, unknown, warn

__version__ = trainyard.__version__
Error = RuntimeError
READ_IT = "Read the file from where it lies."


class Config(OwnConfig):
    """``wandb.config``: the run's configuration, changed by ``update(..., allow_val_change=True)`` alone."""

    def __init__(self, run: OwnRun) -> None:
        object.__setattr__(self, "__dict__", run.config.__dict__)  # what the run's own keeps, this one has

    def update(self, given: Any = (), allow_val_change: bool | None = None, **more: Any) -> None:  # type: ignore[override]
        super().update(given, allow_change=bool(allow_val_change), **more)

    def setdefaults(self, given: Any) -> None:
        self.update({name: value for name, value in dict(given).items() if name not in self})


class Run:
    """``wandb.run``. Steps are W&B's: a call without ``step`` ends the current one, a call with it does not."""

    def __init__(self, own: OwnRun, **told: Any) -> None:
        self.own = own
        self.config = Config(own)
        self.step = 0
        self.entity = told.get("entity") or ""
        self.mode: str = told["mode"]
        self.tags: tuple[str, ...] = tuple(told.get("tags") or ())
        self.notes, self.group, self.job_type = (told.get(name) or "" for name in ("notes", "group", "job_type"))

    name = property(lambda self: self.own.name)
    id = property(lambda self: self.own.id)
    url = property(lambda self: self.own.url)
    project = property(lambda self: self.own.project)
    dir = property(lambda self: str(self.own.folder))
    offline = property(lambda self: self.mode == "offline")
    disabled = property(lambda self: self.mode == "disabled")

    @property
    def summary(self) -> Summary:
        return self.own.summary

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **other: Any) -> None:
        unknown("log", other)
        if any(not isinstance(name, str) for name in data):
            raise TypeError("wandb.log takes a dictionary whose keys are texts")
        if step is not None:
            self.step = max(self.step, int(step))
        self.own.log({key: loggable(value) for key, value in data.items()}, self.step if step is None else int(step))
        if commit or (commit is None and step is None):
            self.step += 1

    def define_metric(self, name: str, step_metric: Any = None, summary: str | None = None, goal: str | None = None,
                      **other: Any) -> None:  # fmt: skip
        unknown("define_metric", {k: v for k, v in other.items() if k not in ("step_sync", "overwrite")})
        if name.endswith("*"):
            warn("define_metric", f"wandb.define_metric: {name!r} stands for several metrics; name each of them")
            return
        which = next((one for one in (summary or "").split(",") if one in ("min", "max", "mean", "last", "best")), None)
        self.own.define_metric(name, step_metric=str(step_metric) if step_metric else None, summary=which, goal=goal)

    def watch(self, models: Any, criterion: Any = None, log: str | None = "gradients", log_freq: int = 1000,
              **other: Any) -> None:  # fmt: skip
        unknown("watch", {"criterion": criterion, **{k: v for k, v in other.items() if k != "idx"}})
        for model in models if isinstance(models, list | tuple) else [models]:
            if log is not None:
                self.own.watch(model, log=log, every=log_freq)  # type: ignore[arg-type]

    def alert(self, title: str, text: str, level: Any = None, wait_duration: Any = None) -> None:
        unknown("alert", {"wait_duration": wait_duration})
        word = str(getattr(level, "value", level) or "INFO").upper()
        self.own.alert(title, text, word, self.step)

    def save(self, glob_str: Any = None, base_path: Any = None, policy: str = "live") -> list[str]:
        """Keep the files as they are now, and where the policy is not "now" also as they are at the end."""
        if glob_str is None:
            return []
        try:
            copies = self.own.save(glob_str, base_path, "now" if policy == "now" else "end")
        except ValueError as error:  # W&B waits for files that are not there yet
            warn("save", f"wandb.save: {error}".replace("save: save:", "save:"))
            return []
        return [str(one) for one in copies]

    def log_code(self, root: str | None = ".", **other: Any) -> None:
        unknown("log_code", {k: v for k, v in other.items() if k != "name"})
        self.own.log_code(root or ".")

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        self.own.finish(exit_code or 0)
        self._leave()

    def _leave(self) -> None:
        global run
        if run is self:
            run = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.own.__exit__(*error)
        self._leave()

    unwatch = left_out("unwatch", "is watched until the model goes")
    log_artifact, upsert_artifact = left_out("log_artifact"), left_out("upsert_artifact")
    log_model, link_model, link_artifact = left_out("log_model"), left_out("link_model"), left_out("link_artifact")
    mark_preempting = left_out("mark_preempting", "needs no mark: a run that is preempted goes on by itself")
    display = to_html = left_out("display", "has its page at wandb.run.url")
    use_artifact, use_model = refused("use_artifact", READ_IT), refused("use_model", READ_IT)
    restore = refused("restore", READ_IT)


run: Run | None = None


def init(
    entity: str | None = None, project: str | None = None, dir: str | os.PathLike[str] | None = None,
    id: str | None = None, name: str | None = None, notes: str | None = None, tags: Sequence[str] | None = None,
    config: Any = None, group: str | None = None, job_type: str | None = None, mode: str | None = None,
    reinit: Any = None, resume: bool | str | None = None, allow_val_change: bool | None = None, settings: Any = None,
    **other: Any,
) -> Run:  # fmt: skip
    """Begin the run, or go on with it. WANDB_PROJECT, _NAME, _RUN_ID, _RESUME, _RUN_GROUP, _JOB_TYPE, _NOTES, _TAGS,
    _MODE and _DIR stand for what is not given."""
    global run

    def told(word: str, value: Any) -> Any:
        return os.environ.get(f"WANDB_{word}") if value is None else value

    if reinit not in (None, False, "return_previous", "default") and run is not None:
        run.finish()
    mode, folder, tags = told("MODE", mode) or "online", told("DIR", dir), told("TAGS", tags)
    tags = tags.split(",") if isinstance(tags, str) else tags
    unknown("init", {"entity": entity, "settings": settings, **other})
    stated = {"notes": told("NOTES", notes), "group": told("RUN_GROUP", group), "job_type": told("JOB_TYPE", job_type)}
    own = trainyard.init(
        told("NAME", name), project=told("PROJECT", project), id=told("RUN_ID", id), resume=told("RESUME", resume),
        folder=Path(folder) / "trainyard-spool" if folder else None, tags=tags, mode=mode, **stated,  # type: ignore[arg-type]
    )  # fmt: skip
    if run is None or run.own is not own:
        run = Run(own, entity=entity, mode=mode, tags=tags, **stated)
    run.config.update(config or {}, allow_val_change=allow_val_change)
    return run


def _of_run(name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if run is None:
            raise Error(f"You must call wandb.init() before wandb.{name}()")
        return getattr(run, name)(*arguments, **options)

    return call


log, define_metric, watch, alert = _of_run("log"), _of_run("define_metric"), _of_run("watch"), _of_run("alert")
OF_RUN = ("unwatch", "save", "log_code", "log_artifact", "log_model", "link_model", "mark_preempting", "use_artifact",
          "use_model", "restore")  # fmt: skip


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """End the run, where there is one."""
    if run is not None:
        run.finish(exit_code)


def login(*_: Any, **__: Any) -> bool:
    """Return whether runs are sent: TRAINYARD_URL and TRAINYARD_TOKEN say where; W&B's key is not used."""
    warn("login", "wandb.login: W&B's key is not used; TRAINYARD_URL and TRAINYARD_TOKEN say where runs are sent")
    return bool(os.environ.get("TRAINYARD_URL"))


def __getattr__(name: str) -> Any:
    if name in ("config", "summary"):
        if run is None:
            raise Error(f"You must call wandb.init() before wandb.{name}")
        return getattr(run, name)
    if name in data_types.__all__:
        return getattr(data_types, name)
    if name in OF_RUN:
        return _of_run(name)
    if name in REFUSED:
        return refused(name, REFUSED[name])
    raise AttributeError(f"trainyard.wandb has no {name!r}: neither Trainyard nor this module has a counterpart of it")


REFUSED = {
    "Api": "trainyard.Api() reads runs and their histories.",
    "sweep": "trainyard.sweep() searches, and W&B's sweep files are read: docs/sweeps_interchange.md.",
    "agent": "Trials of trainyard.sweep() start by themselves.",
    "controller": "Trials of trainyard.sweep() start by themselves.",
    "EvalTable": "wandb.Table is kept.",
    "box3d": "wandb.Image is kept.",
    "setup": "wandb.init() needs none.",
    "join": "wandb.finish() ends the run.",
    "ArtifactTTL": "Files stay where they are.",
}

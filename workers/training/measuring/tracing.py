"""A Chrome trace of chosen steps, asked for while the training goes on.

The supervisor writes what is wanted into the file that TRAINYARD_TRACE names; the loop looks at it once a step, which
costs one ``stat``. The server names steps that are still ahead of every rank, so that all trace the same ones.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch.profiler import ProfilerActivity, profile, record_function


class Notes(Protocol):
    def note(self, payload: Mapping[str, Any], kind: str = "checkpoint") -> None: ...


class Wanted(NamedTuple):
    id: str
    first: int
    steps: int

    @property
    def last(self) -> int:
        return self.first + self.steps - 1


def read_tracing(environ: Mapping[str, str], rank: int, device: torch.device, notes: Notes) -> Tracing:
    """Return what traces this rank's steps, by the node's variables."""
    return Tracing(environ.get("TRAINYARD_TRACE"), environ.get("TRAINYARD_OUTPUT"), rank, device, notes)


class Tracing:
    """One rank's. Nothing that goes wrong with a trace ends the training: the run is told why there is none."""

    def __init__(self, asked: str | None, output: str | None, rank: int, device: torch.device, notes: Notes) -> None:
        """``asked`` is the file with the wish, ``output`` the folder for traces; without either it does nothing."""
        self._asked = asked if output else None
        self._folder = Path(output or ".") / "traces"
        self._rank = rank
        self._device = device
        self._notes = notes
        self._seen = 0  # when the wish was written that we know
        self._wanted: Wanted | None = None
        self._profile: profile | None = None
        self._mark: record_function | None = None

    def before(self, step: int) -> None:
        if self._asked is None:
            return
        try:
            written = os.stat(self._asked).st_mtime_ns  # noqa: PTH116  # every step: a Path costs twice as much
        except OSError:
            return
        if written != self._seen:
            self._seen = written
            self._take_note(step)
        if self._wanted is not None and step >= self._wanted.first:
            self._begin(self._wanted, step)

    def after(self, step: int) -> None:
        if self._wanted is None or self._profile is None:
            return
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None
        if step >= self._wanted.last:
            self._end(self._wanted, self._profile)

    def close(self) -> None:
        """Give up what was asked for and did not come to its last step."""
        if self._wanted is None:
            return
        if self._profile is not None:
            self._profile.stop()
        self._tell(self._wanted, why="the training ended before it")

    def _take_note(self, step: int) -> None:
        try:
            said = json.loads(Path(str(self._asked)).read_bytes())
            wanted = Wanted(str(said["id"]), int(said["first"]), int(said["steps"]))
            is_ours = said["ranks"] == "all" or self._rank in said["ranks"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"trainyard: a wish for a trace cannot be read: {error!r}", file=sys.stderr, flush=True)
            return
        if not is_ours:
            return
        if self._profile is not None and self._wanted is not None:
            now = f"steps {self._wanted.first} to {self._wanted.last} were being traced when the wish arrived"
            self._note(wanted, why=now)
        elif step > wanted.first:
            self._tell(wanted, why=f"step {wanted.first} was over when the wish arrived, at step {step}")
        else:
            self._wanted = wanted

    def _begin(self, wanted: Wanted, step: int) -> None:
        if self._profile is None:
            activities = [ProfilerActivity.CPU]
            if self._device.type == "cuda":
                activities.append(ProfilerActivity.CUDA)
            try:
                self._profile = profile(activities=activities, record_shapes=True)
                self._profile.start()
            except RuntimeError as error:  # another profiler holds the device
                self._profile = None
                self._tell(wanted, why=f"the profiler does not start: {error}")
                return
        self._mark = record_function(f"step {step}")
        self._mark.__enter__()  # type: ignore[no-untyped-call]

    def _end(self, wanted: Wanted, profiler: profile) -> None:
        name = f"step-{wanted.first}.rank-{self._rank}.json.gz"
        path = self._folder / name
        try:
            profiler.stop()
            self._folder.mkdir(exist_ok=True)
            profiler.export_chrome_trace(str(path.with_name(f".{name}")))  # packed, since it ends in .gz
            path.with_name(f".{name}").replace(path)  # whole, for whoever looks
        except (OSError, RuntimeError) as error:
            self._tell(wanted, why=f"it could not be written: {error}")
        else:
            self._tell(wanted, file=f"traces/{name}", bytes=path.stat().st_size)

    def _tell(self, wanted: Wanted, **more: Any) -> None:
        self._wanted = self._profile = self._mark = None
        self._note(wanted, **more)

    def _note(self, wanted: Wanted, **more: Any) -> None:
        data = {"id": wanted.id, "first": wanted.first, "last": wanted.last, **more}
        self._notes.note({"name": "trace", "data": data, "at": time.time()}, kind="facts")

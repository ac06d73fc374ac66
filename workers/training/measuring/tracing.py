"""A Chrome trace of chosen steps, asked for while the training goes on.

The supervisor writes the request into the file that TRAINYARD_TRACE names; the loop looks at it once a step, which
costs one ``stat``. The server names steps that are still ahead of every rank, so that all trace the same ones.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from trainyard.contract.base import BadDocument, decode
from trainyard.contract.desired import TraceRequest
from trainyard.contract.facts import TRACE, TraceFacts
from workers.training.metrics import Reports, facts_record


class Wish(TraceRequest):
    @property
    def last(self) -> int:
        return self.first + self.steps - 1


class Tracing:
    """Trace of one rank. Nothing that goes wrong with it ends the training: its reason is reported instead."""

    def __init__(
        self, request_path: str | None, output: str | None, rank: int, device: torch.device, reports: Reports
    ) -> None:
        """Read requests from ``request_path`` and write traces under ``output``; without either nothing is traced."""
        self._request_path = request_path if output else None
        self._folder = Path(output or ".") / "traces"
        self._rank, self._device, self._reports = rank, device, reports
        self._seen = 0  # the time of the request that was read last
        self._request: Wish | None = None
        self._profile: profile | None = None
        self._mark: record_function | None = None

    def before(self, step: int) -> None:
        if self._request_path is None:
            return
        try:
            written = os.stat(self._request_path).st_mtime_ns  # noqa: PTH116  # every step: a Path costs twice as much
        except OSError:
            return
        if written != self._seen:
            self._seen = written
            self._read_request(step)
        if self._request is not None and step >= self._request.first:
            self._begin(self._request, step)

    def after(self, step: int) -> None:
        if self._request is None or self._profile is None:
            return
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None
        if step >= self._request.last:
            self._end(self._request, self._profile)

    def close(self) -> None:
        """Give up what was asked for and did not come to its last step."""
        if self._request is None:
            return
        if self._profile is not None:
            self._profile.stop()
        self._finish(self._request, why="the training ended before it")

    def _read_request(self, step: int) -> None:
        try:
            request = decode(Path(str(self._request_path)).read_bytes(), Wish)
        except (OSError, BadDocument) as error:
            print(f"trainyard: a wish for a trace cannot be read: {error!r}", file=sys.stderr, flush=True)
            return
        if request.ranks != "all" and self._rank not in request.ranks:
            return
        if self._profile is not None and self._request is not None:
            now = f"steps {self._request.first} to {self._request.last} were being traced when the wish arrived"
            self._report(request, why=now)
        elif step > request.first:
            self._finish(request, why=f"step {request.first} was over when the wish arrived, at step {step}")
        else:
            self._request = request

    def _begin(self, request: Wish, step: int) -> None:
        if self._profile is None:
            activities = [ProfilerActivity.CPU]
            if self._device.type == "cuda":
                activities.append(ProfilerActivity.CUDA)
            try:
                self._profile = profile(activities=activities, record_shapes=True)
                self._profile.start()
            except RuntimeError as error:  # another profiler holds the device
                self._profile = None
                self._finish(request, why=f"the profiler does not start: {error}")
                return
        self._mark = record_function(f"step {step}")
        self._mark.__enter__()  # type: ignore[no-untyped-call]

    def _end(self, request: Wish, profiler: profile) -> None:
        name = f"step-{request.first}.rank-{self._rank}.json.gz"
        path = self._folder / name
        try:
            profiler.stop()
            self._folder.mkdir(exist_ok=True)
            profiler.export_chrome_trace(str(path.with_name(f".{name}")))  # packed, since it ends in .gz
            path.with_name(f".{name}").replace(path)  # whole, for whoever looks
        except (OSError, RuntimeError) as error:
            self._finish(request, why=f"it could not be written: {error}")
        else:
            self._finish(request, file=f"traces/{name}", bytes=path.stat().st_size)

    def _finish(self, request: Wish, **found: Any) -> None:
        self._request = self._profile = self._mark = None
        self._report(request, **found)

    def _report(self, request: Wish, **found: Any) -> None:
        facts = TraceFacts(id=request.id, first=request.first, last=request.last, **found)
        self._reports.report(facts_record(TRACE, facts))

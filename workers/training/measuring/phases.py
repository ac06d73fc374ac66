"""Phases of a step: one after the other, each moment in exactly one of them.

At any moment a step is in one phase, and ``switch`` says that from here on it is in another. So the phases add up to
the step by themselves, and to switch costs one reading of a clock. On a GPU the clock is the device's own: an event in
the stream for each switch, read once the step has waited for the device anyhow.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.progress import marker
from workers.progress.marker import CODES, PHASE

DATA, FORWARD, BACKWARD = "data", "forward", "backward"
COMMUNICATION, OPTIMIZER, CHECKPOINT = "communication", "optimizer", "checkpoint"
IN_A_STEP = (DATA, FORWARD, BACKWARD, COMMUNICATION, OPTIMIZER)  # CHECKPOINT stands between two steps
NAMES = (*IN_A_STEP, CHECKPOINT)


class Phases:
    """The clock of one rank's steps."""

    def __init__(self, device: torch.device) -> None:
        self._clock = _DeviceClock() if device.type == "cuda" else _HostClock()
        self._thread = 0  # that trains
        self._current = ""  # none: outside of a step
        self._words = marker.own().words  # for the supervisor

    def start(self, name: str) -> None:
        self._thread = threading.get_ident()
        self._current = name
        self._words[PHASE] = CODES[name]
        self._clock.start()

    def switch(self, name: str) -> str:
        """Be in ``name`` from now on; return the phase until now, "" outside of a step, where nothing is counted."""
        before = self._current
        if before:
            self._clock.end(before)
            self._current = name
            self._words[PHASE] = CODES[name]
        return before

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Be in ``name`` for the block, and then again in the phase before."""
        before = self.switch(name)
        try:
            yield
        finally:
            self.switch(before)

    def is_of_this_thread(self) -> bool:
        """Say whether it is the thread that trains that asks: what others wait for takes none of the step's time."""
        return threading.get_ident() == self._thread

    def stop(self) -> None:
        """End the step. On a GPU, wait for the stream before ``read``."""
        self.switch("")

    def read(self) -> dict[str, float]:
        """Return the seconds of the last step by the names IN_A_STEP."""
        return self._clock.read()


class _HostClock:
    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._since = 0.0

    def start(self) -> None:
        self._seconds = dict.fromkeys(IN_A_STEP, 0.0)
        self._since = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self._seconds[name] += now - self._since
        self._since = now

    def read(self) -> dict[str, float]:
        return self._seconds


class _DeviceClock:
    """Events are used again: to make one takes longer than to record it."""

    def __init__(self) -> None:
        self._events: list[torch.cuda.Event] = []
        self._names: list[str] = []

    def start(self) -> None:
        self._names.clear()
        self._record(0)

    def end(self, name: str) -> None:
        self._names.append(name)
        self._record(len(self._names))

    def read(self) -> dict[str, float]:
        seconds = dict.fromkeys(IN_A_STEP, 0.0)
        for index, name in enumerate(self._names):
            seconds[name] += self._events[index].elapsed_time(self._events[index + 1]) / 1000
        return seconds

    def _record(self, index: int) -> None:
        if index == len(self._events):
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
        self._events[index].record()

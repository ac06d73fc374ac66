"""Scalars that lie on a GPU: copied without making the training wait for the GPU, and read once they have arrived.

PyTorch is never imported here: where nobody else has, there are no such scalars.
"""

from __future__ import annotations

import sys
from typing import Any


class Arriving:
    """The numbers of one call of ``log`` that are on their way from a device."""

    __slots__ = ("_copies", "_events")

    def __init__(self) -> None:
        self._copies: list[tuple[int, Any]] = []  # place in the row, and the copy in pinned memory
        self._events: dict[Any, Any] = {}  # for each device what happens behind its last copy

    def __bool__(self) -> bool:
        return bool(self._copies)

    def take(self, place: int, scalar: Any) -> None:
        """Start to copy ``scalar``, which ``is_remote``. Raises what PyTorch raises."""
        self._copies.append((place, scalar.detach().to("cpu", non_blocking=True)))
        self._events[scalar.device] = None

    def mark(self) -> None:
        """Remember the point in the devices' queues behind all copies."""
        try:
            self._events = {device: event_on(device) for device in self._events}
        except Exception:  # a failed GPU raises many kinds; then reading the copies waits, and says what is wrong
            self._events = {}

    def is_there(self) -> bool:
        """Whether every copy has arrived; asks, and does not wait. Raises what PyTorch raises."""
        return all(event.query() for event in self._events.values())

    def copies(self) -> list[tuple[int, Any]]:
        return self._copies


def is_remote(value: object) -> bool:
    """Whether ``value`` is a tensor of one element that lies on a GPU."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None or not isinstance(value, tensor):
        return False
    is_simple = type(value) is tensor or type(value).__name__ == "Parameter"  # others may mean more than their memory
    return bool(is_simple and value.is_cuda and value.numel() == 1)


def event_on(device: Any) -> Any:
    """Return an event behind all that was put into the device's current queue."""
    cuda = sys.modules["torch"].cuda
    event = cuda.Event()
    event.record(cuda.current_stream(device))
    return event

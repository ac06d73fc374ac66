"""Values that are believed for a while without looking again."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
MOST = 10_000  # of one kind; then all are forgotten


class Kept(Generic[T]):
    """Values by key, each for some seconds. What ``make`` raises is not remembered."""

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._kept: dict[Hashable, tuple[float, T]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is None or now >= kept[0]:
            if len(self._kept) > MOST:
                self._kept.clear()
            kept = self._kept[key] = (now + self._life_s, make())
        return kept[1]

"""Short texts that ranks leave for each other while they train: a collective of the training must not be disturbed."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch.distributed as dist

POLL_S = 0.005
MAX_POLL_S = 0.05


class NotThere(Exception):
    """What was waited for did not come."""


class Board:
    """Texts by name in the store through which the ranks found each other. Any thread may use it."""

    def __init__(self, name: str) -> None:
        self._store = dist.distributed_c10d._get_default_store()
        self._name = name

    def put(self, name: str, text: str) -> None:
        self._store.set(self._key(name), text)

    def read(self, name: str) -> str | None:
        """Return the text at once; None where there is none yet."""
        key = self._key(name)
        return self._store.get(key).decode() if self._store.check([key]) else None

    def wait_for(self, name: str, timeout_s: float) -> str:
        """Raises NotThere."""
        deadline, pause_s = time.monotonic() + timeout_s, POLL_S
        while (text := self.read(name)) is None:
            if time.monotonic() > deadline:
                raise NotThere(f"{name} did not come within {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_POLL_S)
        return text

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._store.delete_key(self._key(name))

    def _key(self, name: str) -> str:
        return f"trainyard/{self._name}/{name}"

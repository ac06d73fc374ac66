"""The node's environments: what it can build them with, and how much of the disk they take."""

from __future__ import annotations

import os
from pathlib import Path

from workers.containers.removal import remove_leftovers
from workers.environments.store import EnvironmentStore
from workers.environments.tools import find_tools
from workers.sandbox.node import Isolation

LIMIT = "TRAINYARD_ENVIRONMENTS_LIMIT_BYTES"
DEFAULT_LIMIT_BYTES = 50 * 2**30


class Environments:
    """Found out once, as the node worker starts. Supervisors build; here is only what no single attempt does."""

    def __init__(self, home: Path, isolation: Isolation) -> None:
        self._home = home
        self._store = EnvironmentStore(home)
        self.tools = find_tools(os.environ, isolation)
        self._store.record_tools(self.tools)
        self._limit_bytes = limit_bytes()

    def make_room(self) -> None:
        """Delete what a killed builder left, and what was used least recently where all take more than the limit."""
        self._store.remove_unfinished()
        self._store.make_room(self._limit_bytes)
        if self.tools.podman:
            remove_leftovers(self.tools.podman, self._home)


def limit_bytes() -> int:
    """Return the setting. Raises ValueError for one that is no number of bytes."""
    text = os.environ.get(LIMIT, "")
    if text and not text.isdecimal():
        raise ValueError(f"{LIMIT} is {text!r}: it is a number of bytes, such as {DEFAULT_LIMIT_BYTES}")
    return int(text) if text else DEFAULT_LIMIT_BYTES

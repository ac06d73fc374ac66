"""Which of several ingest processes works on a shard. It only spares work: commit() is right without it."""

from __future__ import annotations

import secrets

from runs.transport import redis
from workers.contract import PREFIX

LEASE_S = 3.0  # as long as a shard waits after its ingest was killed; renewed every second


class ShardLock:
    def __init__(self, shard: int) -> None:
        self._key = f"{PREFIX}:ingest:{shard}"
        self._token = secrets.token_hex(8).encode()
        self.is_held = False

    def hold(self) -> bool:
        """Take the lock or keep it for another LEASE_S; return whether it is ours."""
        milliseconds = int(LEASE_S * 1000)
        if redis().set(self._key, self._token, nx=True, px=milliseconds):
            self.is_held = True
        elif redis().get(self._key) == self._token:
            # It may run out between these two lines. Then two work for a moment, and each point is still stored once.
            self.is_held = bool(redis().pexpire(self._key, milliseconds))
        else:
            self.is_held = False
        return self.is_held

    def forget(self) -> None:
        """After trouble: what we knew may be old."""
        self.is_held = False

    def release(self) -> None:
        if self.is_held and redis().get(self._key) == self._token:
            redis().delete(self._key)
        self.is_held = False

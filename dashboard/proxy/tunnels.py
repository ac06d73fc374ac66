"""The tunnels of this process: one for each pass that is in use."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from dashboard.proxy.tunnel import Tunnel
from runs.interactive.app_tickets import AppPass, digest_of


class Tunnels:
    def __init__(self) -> None:
        self._open: dict[str, Tunnel] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def tunnel_of(self, secret: str, granted: AppPass, address: str) -> Tunnel:
        """Return the open tunnel of the pass, a new one where there is none. Raises TunnelClosed."""
        digest = digest_of(secret)
        async with self._opening.setdefault(digest, asyncio.Lock()):
            known = self._open.get(digest)
            if known is not None and known.closed is None:
                return known
            self._forget_closed()
            tunnel = self._open[digest] = Tunnel(granted)
            await tunnel.begin(address)
            return tunnel

    def _forget_closed(self) -> None:
        for digest in [digest for digest, tunnel in self._open.items() if tunnel.closed is not None]:
            del self._open[digest]
        for digest in [one for one, lock in self._opening.items() if one not in self._open and not lock.locked()]:
            del self._opening[digest]


_tunnels: WeakKeyDictionary[asyncio.AbstractEventLoop, Tunnels] = WeakKeyDictionary()


def tunnels() -> Tunnels:
    """Return the process's. (A process has one event loop; tests have one each.)"""
    return _tunnels.setdefault(asyncio.get_running_loop(), Tunnels())

"""Addresses from which data is fetched: none of the node's own network, unless ``TRAINYARD_DATA_HOSTS`` names it.

The check stands where Python connects, and sees the address that is connected to. So it holds for each redirect, for
every protocol, and for a name that resolves to another address the second time.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainyard.formats.addresses import address_problem


class RefusedAddress(PermissionError):
    """This node does not fetch from there. The message is a sentence without its end."""


class _Guard:
    """Counts the fetches under way: what else this process connects to meanwhile is checked as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_fetching = 0
        self._is_hooked = False
        self.refused: RefusedAddress | None = None

    def enter(self) -> None:
        with self._lock:
            if not self._is_hooked:
                sys.addaudithook(self._look)
                self._is_hooked = True
            if self._num_fetching == 0:
                self.refused = None
            self._num_fetching += 1

    def leave(self) -> None:
        with self._lock:
            self._num_fetching -= 1

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg") and self._num_fetching:
            connection, address = arguments[:2]
            if problem := _problem(connection, address):
                self.refused = RefusedAddress(problem)
                raise self.refused


_guard = _Guard()


@contextmanager
def only_allowed_hosts() -> Iterator[None]:
    """Refuse, in this whole process, to connect to what data is not fetched from. Raises RefusedAddress in place of
    whatever a library made of the refusal."""
    _guard.enter()
    try:
        yield
    except Exception as error:
        if _guard.refused is not None and not isinstance(error, RefusedAddress):
            raise _guard.refused from error
        raise
    finally:
        _guard.leave()


def _problem(connection: Any, address: Any) -> str:
    if getattr(connection, "family", None) not in (socket.AF_INET, socket.AF_INET6):
        return "leads to a socket of this machine"
    host = str(address[0]).partition("%")[0] if isinstance(address, tuple) and address else ""
    try:
        return address_problem(ipaddress.ip_address(host))
    except ValueError:  # a name, which the system would resolve out of our sight
        return f"leads to {host or 'nothing'}, which is no address"

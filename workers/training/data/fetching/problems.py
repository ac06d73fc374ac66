"""Problems of fetches: addresses that are refused, and sentences about those that failed.

Every store has its own errors, recognised by their texts.
"""

import ipaddress
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from trainyard.formats.addresses import address_problem
from workers.training.data.problems import DataProblem, NodeDataProblem
from workers.training.data.storage.cache import NO_ROOM

LOST = {"ClientPayloadError", "ServerDisconnectedError", "ClientOSError", "ConnectionResetError", "IncompleteRead"}
BUSY = (408, 425, 429, 500, 502, 503, 504)


def shown(location: str) -> str:
    """Return a location for people: without the password or signature that a URL may carry."""
    return "::".join(map(_shown, location.split("::")))


def _shown(location: str) -> str:
    if "://" not in location:
        return location
    try:
        parts = urlsplit(location)
    except ValueError:  # no URL that anybody can read
        return location.partition("://")[0] + "://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "…" if parts.query else "", ""))


def explained(error: BaseException, location: str) -> Exception:
    """Return the DataProblem for what a store raised; a full disk's error stays as it is, for the cache."""
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, OSError) and one.errno in NO_ROOM:
            return one
    reason = next((f"which {one}" for one in chain if isinstance(one, RefusedAddress)), "") or _reason(chain)
    for part in location.split("::"):  # some name the URL
        reason = reason.replace(part, shown(part))
    kind = NodeDataProblem if _is_of_node(chain) else DataProblem
    return kind(f"task.data.location is {shown(location)}, {reason[:400]}")


def is_passing(error: BaseException) -> bool:
    """Say whether another try may succeed: the connection was lost, or the server was busy."""
    chain = list(_chain(error))
    if (status := _status(chain)) is not None:
        return status in BUSY
    return any(type(one).__name__ in LOST for one in chain)


def _is_of_node(chain: list[BaseException]) -> bool:
    """Return whether the server was not reached: another node may reach it."""
    return _status(chain) is None and (_is_unconnected(chain) or any("Timeout" in type(one).__name__ for one in chain))


def _is_unconnected(chain: list[BaseException]) -> bool:
    return any(isinstance(one, ConnectionError) or type(one).__name__.startswith("ClientConnector") for one in chain)


def _reason(chain: list[BaseException]) -> str:
    status = _status(chain)
    names = {type(one).__name__ for one in chain}
    if status in (401, 403) or any(isinstance(one, PermissionError) for one in chain):
        code = f" ({status})" if status else ""
        return f"which refuses to be read{code}: check its rights, and the keys that task.environment gives"
    if status in (404, 410):
        return f"which is not there ({status}): check the address"
    if status is not None:
        return f"whose server answered {status}: try again, or check the address"
    if names & LOST:
        return "whose server broke off the connection: try again"
    if any("Credentials" in name for name in names):
        return "which needs keys, and there are none: give them in task.environment or on the node"
    if any(isinstance(one, TimeoutError) or "Timeout" in type(one).__name__ for one in chain):
        return "whose server does not answer: check that the node can reach it"
    if _is_unconnected(chain):
        return "whose server cannot be reached from this node: check the host's name and the network"
    if any(isinstance(one, FileNotFoundError | KeyError) for one in chain):
        return "which is not there: check the address"
    if names & {"BadZipFile", "ReadError"}:
        return "which is not a whole archive: bring it again"
    return f"which cannot be read: {type(chain[0]).__name__}: {chain[0]!s}"


def _status(chain: list[BaseException]) -> int | None:
    """Return the HTTP status that one of the errors carries, as aiohttp, botocore and gcsfs do it."""
    for one in chain:
        response = getattr(one, "response", None)
        inner = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
        # aiohttp's own complaints about what a server sent have a code too, which no server gave.
        code = getattr(one, "code", None) if type(one).__name__ in ("HttpError", "HTTPError") else None
        for value in (getattr(one, "status", None), code, inner):
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


# Addresses from which data is fetched: none of the node's own network, unless ``TRAINYARD_DATA_HOSTS`` names it.
#
# The check stands where Python connects, and sees the address that is connected to. So it holds for each redirect,
# for every protocol, and for a name that resolves to another address the second time.


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

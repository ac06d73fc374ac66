"""A node's receiver of parts: what other nodes of a run send is kept in this node's memory, within its limit."""

import hashlib
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from trainyard.contract.base import BadMessage
from trainyard.contract.seals import seal, unseal
from trainyard.spooling.held_folder import remove_tree
from workers.replicas import sending
from workers.replicas.folders import MemoryFolder, NoRoom
from workers.replicas.sending import BadLine, PartAnswer, StatePart

log = structlog.get_logger(__name__)

MAX_CONNECTIONS = 64
SILENCE_S = 30.0  # within a part
IDLE_S = 3600.0  # between two
MAX_PROBLEM = 500  # characters
STATE = re.compile(r"step-(\d{1,18})\.fence-(\d{1,18})")


class KnownAttempt(NamedTuple):
    """An attempt that lives on this node: its key, and the Unix group that may read what is kept of its run."""

    run: str
    fence: int
    key: str
    group: int = -1


class Receiver:
    """Listens at ``address``; ``find`` returns the attempt with an id, None where none lives here."""

    def __init__(self, folder: MemoryFolder, address: str, find: Callable[[str], KnownAttempt | None], port: int = 0):
        self._folder, self._find = folder, find
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._promised = 0  # bytes of parts that are on their way
        self._lock = threading.Lock()
        self._listener = _listen(address, port)
        self.port = int(self._listener.getsockname()[1])

    def start(self) -> None:
        threading.Thread(target=self._serve, name="memory", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            if not self._places.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve_one, args=(connection,), name="memory-part", daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(SILENCE_S)
                nonce, number = secrets.token_hex(16), 0
                connection.sendall(f"{nonce}\n".encode())
                while True:
                    number += 1
                    connection.settimeout(IDLE_S if number > 1 else SILENCE_S)
                    self._take(connection, nonce, number)
        except (OSError, BadLine):  # the sender is gone, or was none
            pass
        except BadMessage as error:
            log.warning("memory.refused", error=str(error))
        except Exception:  # a bug here must not be silent
            log.exception("memory.bug")
        finally:
            self._places.release()

    def _take(self, connection: socket.socket, nonce: str, number: int) -> None:
        """Take one part. Raises BadMessage for what is not sealed with the attempt's key: then nothing is answered."""
        attempt, _, text = sending.read_line(connection).partition(" ")
        connection.settimeout(SILENCE_S)
        known = self._find(attempt)
        if known is None:
            raise BadLine("no such attempt here")
        part = unseal(known.key, sending.part_scope(nonce, number), text, StatePart)
        problem = _problem_of(part, known) or self._promise(part.bytes)
        self._answer(connection, known, sending.answer_scope(nonce, number, sending.BEGIN), problem)
        if problem:
            return
        try:
            self._store(connection, part, known)
        except (OSError, BadPart) as error:
            problem = str(error)
        finally:
            with self._lock:
                self._promised -= part.bytes
        self._answer(connection, known, sending.answer_scope(nonce, number, sending.END), problem)
        if problem:  # what was not read of the part is not to be taken for the next message
            raise BadLine(problem)

    def _answer(self, connection: socket.socket, known: KnownAttempt, scope: str, problem: str) -> None:
        connection.sendall(f"{seal(known.key, scope, PartAnswer(problem[:MAX_PROBLEM]))}\n".encode())

    def _promise(self, num_bytes: int) -> str:
        """Keep room for a part that is about to come; return why there is none."""
        with self._lock:
            try:
                self._folder.refuse_beyond_limit(num_bytes + self._promised)
            except NoRoom as error:
                return str(error)
            self._promised += num_bytes
        return ""

    def _store(self, connection: socket.socket, part: StatePart, known: KnownAttempt) -> None:
        side = self._folder.run(part.run).peer
        state = _make(_make(side, known.group) / f"step-{part.step}.fence-{part.fence}", known.group)
        temporary = state / f".{part.name}.{secrets.token_hex(4)}"
        try:
            _receive(connection, part, temporary, known.group)
            temporary.rename(state / part.name)
        finally:
            temporary.unlink(missing_ok=True)
        if part.name == sending.MANIFEST:
            for folder in side.iterdir():
                found = STATE.fullmatch(folder.name)
                if found and (int(found[2]), int(found[1])) < (part.fence, part.step):
                    remove_tree(folder)


class BadPart(Exception):
    """The part that came is not the announced one."""


def _problem_of(part: StatePart, known: KnownAttempt) -> str:
    if (part.run, part.fence) != (known.run, known.fence):
        return f"it is of run {part.run}, fence {part.fence}"
    if not sending.NAME.fullmatch(part.name):
        return f"{part.name!r} is no name of a part"
    if part.bytes < 0 or part.step < 0:
        return f"step {part.step} with {part.bytes} bytes"
    return ""


def _make(folder: Path, group: int) -> Path:
    """Make a folder that the run's ranks may read, and only the node writes."""
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    if group >= 0 and folder.stat().st_gid != group:
        os.chown(folder, -1, group)
    folder.chmod(0o750)
    return folder


def _receive(connection: socket.socket, part: StatePart, path: Path, group: int) -> None:
    digest, left = hashlib.sha256(), part.bytes
    buffer = memoryview(bytearray(min(sending.CHUNK_BYTES, max(1, part.bytes))))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        os.fchmod(descriptor, 0o640)  # whatever the node worker's umask is
        if group >= 0:
            os.chown(path, -1, group)
        while left:
            received = connection.recv_into(buffer, min(left, len(buffer)))
            if not received:
                raise BadPart(f"{part.name} ended {left} bytes too early")
            chunk = buffer[:received]
            digest.update(chunk)
            if file.write(chunk) != received:
                raise BadPart("the memory folder is full")
            left -= received
    if digest.hexdigest() != part.sha256:
        raise BadPart(f"{part.name} did not arrive as it was taken: its SHA-256 differs")


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for place in ((address, port), (address, 0), ("", 0)):  # the last: an address that only others see
        with suppress(OSError):
            return socket.create_server(place, family=family, backlog=MAX_CONNECTIONS)
    raise OSError(f"no port of {address} can be listened at")

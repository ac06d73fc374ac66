"""A supervisor's control socket: one line of JSON in, one line out."""

import contextlib
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import structlog

from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.orders import Go
from trainyard.contract.sessions import SessionOrder

log = structlog.get_logger(__name__)

MAX_LINE_BYTES = 1 << 20
LONGEST_PATH = 100  # as macOS takes it
SHORT_TEMPORARY = "/tmp"  # where the folders of this user have long names


class Request(WireStruct, kw_only=True):
    """Request of the node worker to a supervisor. Another ``do`` asks for the phase alone."""

    do: str = ""  # "go", "stop" or "attach"
    fence: int | None = None  # of the attempt that is meant; None: whichever this is
    go: Go | None = None
    cause: Literal["stopped", "stale_fence", "preempted"] = "stopped"
    grace_s: float | None = None
    session: SessionOrder | None = None


class SupervisorAnswer(WireStruct, kw_only=True):
    phase: str = ""
    pid: int = 0
    error: str = ""


def socket_path(folder: Path) -> Path:
    """Return where the supervisor of ``folder`` listens: short, since socket paths end at 104 to 108 characters."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    own = f"trainyard-{os.getuid()}"
    runtime = Path(base) / "trainyard" if base else Path(tempfile.gettempdir()) / own
    name = f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}.sock"
    return runtime / name if len(os.fsencode(runtime / name)) <= LONGEST_PATH else Path(SHORT_TEMPORARY) / own / name


def listen(path: Path) -> socket.socket:
    """Bind the socket in a folder of our own. Raises PermissionError when somebody else made that folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = path.parent.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(f"{path.parent} is not ours alone")
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen(8)
    server.setblocking(False)
    return server


def serve_one(server: socket.socket, handle: Callable[[Request], SupervisorAnswer]) -> None:
    """Serve one waiting client. A client that stalls or sends no request is dropped: nothing here may block ranks."""
    with contextlib.suppress(OSError, ValueError):
        client, _ = server.accept()
        with client:
            client.settimeout(0.5)
            try:
                request = decode(_line(client), Request)
            except BadDocument as error:
                log.warning("request.refused", error=str(error))
                return
            client.sendall(encode(handle(request)).encode() + b"\n")


def send_request(path: Path, request: Request, *, timeout_s: float = 2.0) -> SupervisorAnswer | None:
    """Return the supervisor's answer; None when it does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout_s)
        try:
            client.connect(str(path))
            client.sendall(encode(request).encode() + b"\n")
            return decode(_line(client), SupervisorAnswer)
        except (OSError, ValueError):
            return None


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(data) > MAX_LINE_BYTES:
            raise ValueError("the line ends early, or never")
        data += part
    return data

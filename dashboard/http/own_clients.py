"""The token in ``client.toml`` is only for processes of the server's own user, and root's, on this machine.

What stands in the file opens nothing by itself: here, at the web process's front door, it is exchanged for the token,
where the kernel says whose the client's socket is. So nobody who gets the file has the token, and no door behind this
one needs to know of it.
"""

import errno
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.http.asgi import Receive, Scope, Send
from dashboard.http.body_limits import App, send_answer
from dashboard.http.credentials import bearer_of
from runs.api.problems import problem
from runs.rights.access import MACHINE_PREFIX, token_of_machine

Address = tuple[str, int]
SOCK_DIAG, BY_FAMILY, ANY = 4, 20, 0xFFFFFFFF  # linux/netlink.h, linux/sock_diag.h
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
PASSED_ON = (b"forwarded", b"via", b"x-real-ip", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto")
ONLY_HERE = "The token of client.toml is for programs of the server's own user on its machine: make one of your own. "


class OwnClients:
    """ASGI middleware that exchanges the secret of ``client.toml`` for the token, or answers 401 and says why."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        secret = bearer_of(scope) or ""
        if secret.startswith(MACHINE_PREFIX):
            if why := _why_not(scope):
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close"})  # before it was accepted: a 403
                else:
                    await send_answer(send, problem(401, ONLY_HERE + why, code="sign-in"))
                return
            token = f"Bearer {token_of_machine(secret)}".encode()
            others = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
            scope = {**scope, "headers": [*others, (b"authorization", token)]}
        await self._app(scope, receive, send)


def _why_not(scope: Scope) -> str:
    """Return why the sender is none of ours, as a sentence; empty where it is."""
    if any(name in PASSED_ON for name, _ in scope["headers"]):  # before anything believes what they say of the client
        return "This request came by a proxy."
    return why_not_once(scope, "why_not")


def why_not_once(scope: Scope, name: str, *, users: Collection[int] = ()) -> str:
    """As ``why_not``, which is asked once for a connection: all its requests find the answer under ``name``."""
    state: Any = scope.get("state", {})
    known: dict[str, str] = state.get("connection", {})  # see LimitedConnection
    if name not in known:
        ends: Any = (scope.get("client"), scope.get("server"))
        known[name] = why_not(*ends, users=users)
    return known[name]


def why_not(
    client: Address | None, server: Address | None, tables: tuple[Path, ...] = (), *, users: Collection[int] = ()
) -> str:
    """Return why the connection from ``client`` to ``server`` is neither our user's nor root's nor one's of ``users``,
    as a sentence; empty where it is.

    ``tables`` are read in the place of the kernel's own answer. On a system without either every process of this
    machine counts as ours.
    """
    try:
        wanted = _Ends(_plain(client), _plain(server))
    except (TypeError, ValueError, IndexError):
        return "Nobody knows where this request came from."
    found = [] if tables else _asked(wanted)
    if found is None or tables:
        there = [table for table in tables or TABLES if table.exists()]
        if not there:
            is_here = ipaddress.ip_address(wanted.local[0]).is_loopback
            return "" if is_here else "This request came from another machine."
        # Twice: the kernel may leave a line out while others come and go.
        sockets = (one for table in there * 2 for one in _sockets(table, wanted.local[1]))
        found = [uid for ends, uid in sockets if ends == wanted]
    if not found:
        return "This request came from another machine, or its connection is closed."
    return "" if found[0] in (0, os.getuid(), *users) else f"This request came from user {found[0]} of this machine."


class _Ends(NamedTuple):
    local: Address
    remote: Address


def _asked(ends: _Ends) -> list[int] | None:
    """Return the user of the socket that a process of this machine holds, as the kernel answers (sock_diag(7)), which
    takes a ten thousandth of a second; the tables take a hundredth. None where it does not answer."""
    local, remote = (ipaddress.ip_address(host) for host, _ in ends)
    if not hasattr(socket, "AF_NETLINK") or local.version != remote.version:
        return None
    family = socket.AF_INET if local.version == 4 else socket.AF_INET6
    places = (local.packed.ljust(16, b"\0"), remote.packed.ljust(16, b"\0"))
    wanted = struct.pack("!HH16s16s", ends.local[1], ends.remote[1], *places) + struct.pack("=III", 0, ANY, ANY)
    asked = struct.pack("=BBxxI", family, socket.IPPROTO_TCP, ANY) + wanted
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(struct.pack("=IHHII", 16 + len(asked), BY_FAMILY, 1, 1, 0) + asked)
            answer = kernel.recv(4096)
        if struct.unpack_from("=H", answer, 4)[0] == BY_FAMILY:
            uid, inode = struct.unpack_from("=II", answer, 80)
            return [uid] if inode else []
        return [] if struct.unpack_from("=i", answer, 16)[0] == -errno.ENOENT else None
    except (OSError, struct.error):
        return None


def _sockets(table: Path, port: int) -> Iterator[tuple[_Ends, int]]:
    """Yield both ends and the user of each socket at the port that a process holds. A closed one has no inode, and
    root's number instead of its user's."""
    for line in table.read_text().splitlines()[1:]:
        words = line.split()
        if words[9] != "0" and words[1].endswith(f":{port:04X}"):
            yield _Ends(_end(words[1]), _end(words[2])), int(words[7])


def _end(words: str) -> Address:
    """Read the kernel's address: 32-bit words in the machine's order, and the port."""
    digits, _, port = words.partition(":")
    packed = bytes.fromhex(digits)
    if sys.byteorder == "little":
        packed = b"".join(packed[i : i + 4][::-1] for i in range(0, len(packed), 4))
    return _plain((str(ipaddress.ip_address(packed)), int(port, 16)))


def _plain(end: Any) -> Address:
    """Return the address in one spelling: an IPv4 address within IPv6 is that IPv4 address."""
    address = ipaddress.ip_address(str(end[0]).partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(end[1])

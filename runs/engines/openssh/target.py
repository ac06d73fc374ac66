"""A machine that is reached over SSH, and what of it is refused before anything is tried."""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from itertools import pairwise

from runs.engines.cluster_settings.checks import read_by

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]{1,44}")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
DEFAULT_PORT = 22
ADDRESS_WORDS = "a host such as login.example.org"


@dataclass(frozen=True)
class Target:
    """``host_key``: its type and its base64, as known_hosts has them."""

    host: str
    user: str
    host_key: str
    port: int = DEFAULT_PORT

    @property
    def label(self) -> str:
        place = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{place}" if self.port == DEFAULT_PORT else f"{self.user}@{place}:{self.port}"

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.host_key)


def read_address(text: str) -> tuple[str, str, int]:
    """Return user, host and port of ``user@host``, ``user@host:port`` or ``user@[address]:port``. Raises ValueError."""
    user, at, place = text.rpartition("@")
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        port = rest.removeprefix(":") if rest else ""
        is_whole = bool(bracket) and (not rest or rest.startswith(":"))
    else:
        host, colon, port = place.partition(":")
        is_whole = not colon or bool(port)
    if not at or not is_whole or not USER.fullmatch(user) or not HOST.fullmatch(host):
        raise ValueError(f"an address such as user@host or user@host:2222, not {text[:100]!r}")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError(f"a port from 1 to 65535, not {port[:20]!r}")
    return user, host, int(port or DEFAULT_PORT)


def read_host_key(text: str) -> str:
    """Return type and base64 of a host key, as a line of known_hosts, of `ssh-keyscan` or of the host's own ``.pub``
    file has them. Raises ValueError."""
    for kind, body in pairwise(text.split()):
        if kind in KEY_TYPES:
            if _inner_type(body) != kind:
                raise ValueError(f"a whole host key, and this one of type {kind} is cut off or damaged")
            return f"{kind} {body}"
    raise ValueError(f"a host key such as `ssh-ed25519 AAAA…` of a type that is known, not {text[:60]!r}")


def fingerprint_of(host_key: str) -> str:
    """Return the fingerprint as `ssh-keygen -l` shows it."""
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def host_problem(value: str) -> str:
    return "" if HOST.fullmatch(value) else f"{ADDRESS_WORDS}, not {value[:100]!r}"


def host_key_problem(value: str) -> str:
    return read_by(read_host_key)(value) or ("" if "\n" not in value.strip() else "one key, in one line")


def _inner_type(body: str) -> str:
    """Return the type that stands inside of a key, empty where it is none."""
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return ""
    length = int.from_bytes(data[:4], "big")
    # An Ed25519 key is the shortest: its type, and 32 bytes behind another length.
    return data[4 : 4 + length].decode("ascii", "replace") if len(data) >= 4 + length + 4 + 32 else ""

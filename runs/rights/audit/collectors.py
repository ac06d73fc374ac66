"""The collectors that AUDIT_SYSLOG and AUDIT_OTLP name. Read while settings are: nothing of Django is imported."""

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

PATH = "/v1/logs"


class SyslogPlace(NamedTuple):
    kind: str  # udp, tcp or unix
    host: str  # of unix: the path
    port: int


@dataclass(frozen=True)
class Collector:
    """Address to which logs go by OTLP over HTTP, and the headers that go along, such as a token."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def syslog_place(text: str) -> SyslogPlace | None:
    """Return where ``udp://host:514``, ``tcp://host:601`` or ``unix:///dev/log`` leads; None for nothing. Raises
    ValueError for anything else."""
    if not text.strip():
        return None
    parts = _parts(text)
    if parts is not None and parts.scheme == "unix" and parts.path and not parts.netloc:
        return SyslogPlace("unix", parts.path, 0)
    if parts is not None and parts.scheme in ("udp", "tcp") and parts.hostname and "@" not in parts.netloc:
        return SyslogPlace(parts.scheme, parts.hostname, parts.port or (514 if parts.scheme == "udp" else 601))
    raise ValueError(f"AUDIT_SYSLOG is udp://host:port, tcp://host:port or unix:///path, not {_shown(text)!r}.")


def collector(address: str, headers: str = "") -> Collector | None:
    """Return what the two settings name; None for no address. Raises ValueError, without the headers' values.

    An address without a path gets OTLP's own. Headers are ``name=value,name=value`` with percent-encoded values, as
    OTEL_EXPORTER_OTLP_HEADERS has them.
    """
    if not address.strip():
        return None
    parts = _parts(address)
    is_plain = parts is not None and parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if parts is None or not is_plain or parts.query or parts.fragment:
        raise ValueError(f"AUDIT_OTLP is an address such as https://collector:4318, not {_shown(address)!r}.")
    path = parts.path if parts.path.strip("/") else PATH
    found = []
    for pair in filter(None, (one.strip() for one in headers.split(","))):
        name, equals, value = pair.partition("=")
        text = unquote(value.strip())
        if not equals or not name.strip() or not text.isprintable():
            raise ValueError("AUDIT_OTLP_HEADERS is name=value, separated by commas. Its values are not shown here.")
        found.append((name.strip(), text))
    return Collector(f"{parts.scheme}://{parts.netloc}{path}", tuple(found))


def _parts(text: str) -> SplitResult | None:
    """Return the parts of an address; None where it has brackets that do not close, or a port that is none."""
    try:
        parts = urlsplit(text.strip())
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def _shown(text: str) -> str:
    """Return the address without what may be a password in it."""
    head, at, rest = text.rpartition("@")
    return f"{head.rpartition('//')[0]}//…@{rest}" if at else text

"""The collectors that AUDIT_SYSLOG, AUDIT_OTLP and TELEMETRY_OTLP name. Read while settings are: nothing of Django is
imported."""

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
    """Address to which OTLP over HTTP goes, and the headers that go along, such as a token."""

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


def collector(address: str, headers: str = "", name: str = "AUDIT_OTLP", own_path: str = PATH) -> Collector | None:
    """Return what the setting ``name`` and that of its headers have; None for no address. Raises ValueError, without
    the headers' values.

    An address without a path gets ``own_path``. Headers are ``name=value,name=value`` with percent-encoded values, as
    OTEL_EXPORTER_OTLP_HEADERS has them.
    """
    if not address.strip():
        return None
    parts = _parts(address)
    is_plain = parts is not None and parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if parts is None or not is_plain or parts.query or parts.fragment:
        raise ValueError(f"{name} is an address such as https://collector:4318, not {_shown(address)!r}.")
    path = parts.path.rstrip("/") or own_path
    found = []
    for pair in filter(None, (one.strip() for one in headers.split(","))):
        key, equals, value = pair.partition("=")
        text = unquote(value.strip())
        if not equals or not key.strip() or not text.isprintable():
            raise ValueError(f"{name}_HEADERS is name=value, separated by commas. Its values are not shown here.")
        found.append((key.strip(), text))
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

"""The collector that AUDIT_OTLP names. Read while Django's settings are: nothing of Django is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PATH = "/v1/logs"


@dataclass(frozen=True)
class Collector:
    """Where logs go by OTLP over HTTP, and the headers that go along, such as a token."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def collector(address: str, headers: str = "") -> Collector | None:
    """Return what the two settings name; None for no address. Raises ValueError, without the headers' values.

    An address without a path gets OTLP's own. Headers are ``name=value,name=value`` with percent-encoded values, as
    OTEL_EXPORTER_OTLP_HEADERS has them.
    """
    if not address.strip():
        return None
    parts = urlsplit(address.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError(f"AUDIT_OTLP must be an address such as https://collector:4318, not {address!r}")
    path = parts.path if parts.path.strip("/") else PATH
    found = []
    for pair in filter(None, (one.strip() for one in headers.split(","))):
        name, equals, value = pair.partition("=")
        text = unquote(value.strip())
        if not equals or not name.strip() or not text.isprintable():
            raise ValueError("AUDIT_OTLP_HEADERS must be name=value, separated by commas")
        found.append((name.strip(), text))
    return Collector(f"{parts.scheme}://{parts.netloc}{path}", tuple(found))

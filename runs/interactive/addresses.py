"""Addresses of a run's apps in a browser: each rank and port of a run has a host name, and so an origin, of its own.

What an app serves is made by users. In an origin of its own it has no part in the dashboard's cookies and pages, nor in
those of another run. Imports nothing of Django.
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

LABEL = re.compile(r"(?P<run>[a-z0-9]{1,40})-(?P<rank>\d{1,6})-(?P<port>[1-9]\d{0,4})")
DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
MAX_PORT = 65_535
DEFAULT_PORTS = {"http": 80, "https": 443}


class App(NamedTuple):
    """A port that a process of a run listens on, beside one of its ranks."""

    run: str
    rank: int
    port: int

    @property
    def label(self) -> str:
        return f"{self.run}-{self.rank}-{self.port}"


class ProxyOrigin(NamedTuple):
    """All origins of apps: ``scheme://*.domain[:port]``."""

    scheme: str
    domain: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> "ProxyOrigin":
        """Raises ValueError, which says what is wrong."""
        parts = urlsplit(text)
        wildcard, _, domain = (parts.hostname or "").partition(".")
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError("it begins with http:// or https://")
        if wildcard != "*" or not DOMAIN.fullmatch(domain):
            raise ValueError("its host begins with *. and a domain follows: https://*.apps.example.org")
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
            raise ValueError("nothing follows the host and port")
        port = parts.port
        return cls(parts.scheme, domain, None if port == DEFAULT_PORTS[parts.scheme] else port)

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    def host_of(self, app: App) -> str:
        return f"{app.label}.{self.domain}{'' if self.port is None else f':{self.port}'}"

    def origin_of(self, app: App) -> str:
        return f"{self.scheme}://{self.host_of(app)}"

    def app_at(self, host: str) -> App | None:
        """Return the app of a Host header; None for a host that is not exactly one of ours."""
        found = LABEL.fullmatch(host.partition(".")[0])
        if found is None or int(found["port"]) > MAX_PORT:
            return None
        app = App(found["run"], int(found["rank"]), int(found["port"]))
        return app if host == self.host_of(app) else None

    def shares_cookies_with(self, site_host: str) -> bool:
        """Return whether a page of an app could set a cookie for the dashboard's host. Browsers take ``localhost`` and
        numbers for no domain."""
        if self.domain == "localhost":
            return False
        return f".{site_host}".endswith(f".{self.domain}") or f".{self.domain}".endswith(f".{site_host}")

"""Check of the pages that open a WebSocket. A browser sends our cookies with every handshake, whoever's page asks for
it."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether the page at ``origin`` was served under the Host that the handshake is for, and the Host is ours.

    The port counts: what another program serves on this machine is another site.
    """
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not host:
        return False
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, [*settings.ALLOWED_HOSTS]) and parts.netloc.lower() == host.lower()


class SameOrigin:
    """ASGI middleware that refuses a handshake without an Origin, or from another site's page."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin1") for name, value in scope.get("headers", [])}
        if is_same_origin(headers.get(b"origin", ""), headers.get(b"host", "")):
            await self.application(scope, receive, send)
        else:
            await WebsocketDenier()(scope, receive, send)

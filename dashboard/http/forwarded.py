"""Trust in ``X-Forwarded-For`` and ``X-Forwarded-Proto``: ranks reach the server over the loopback as well as a proxy
does, so there the kernel says whose the connection is."""

from typing import Any

import structlog
from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dashboard.http.asgi import Receive, Scope, Send
from dashboard.http.body_limits import App
from dashboard.http.own_clients import why_not_once

log = structlog.get_logger(__name__)

FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto")
LOOPBACK = "127.0.0.1,::1"


class Forwarded:
    """ASGI middleware that takes client and scheme from a believed proxy, and the headers from what others send."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._addresses = settings.FORWARDED_ALLOW_IPS
        self._believing = ProxyHeadersMiddleware(app, self._addresses or LOOPBACK)
        self._said: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not any(name in FORWARDED for name, _ in scope.get("headers", ())):
            await self._app(scope, receive, send)
        elif why := self._why_not(scope):
            if why not in self._said and len(self._said) < 100:
                self._said.add(why)
                log.warning("forwarded.not_believed", why=why, see="FORWARDED_ALLOW_IPS, FORWARDED_ALLOW_USERS")
            others = [(name, value) for name, value in scope["headers"] if name not in FORWARDED]
            await self._app({**scope, "headers": others}, receive, send)
        else:
            believing: Any = self._believing
            await believing(scope, receive, send)

    def _why_not(self, scope: Scope) -> str:
        """Return why the sender is no proxy of ours; empty where it is."""
        client = scope.get("client")
        if client is None or client[0] not in self._believing.trusted_hosts:
            return "This address is not among those whose X-Forwarded-For is believed."
        if self._addresses:
            return ""  # whoever set them chose to believe each process there
        return why_not_once(scope, "forwarded", users=settings.FORWARDED_ALLOW_USERS)

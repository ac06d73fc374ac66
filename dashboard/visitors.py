"""Who opened a socket, asked anew each time: a session ends and a token is revoked while sockets are open."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.conf import settings

from runs.access import user_of_token
from runs.models import User


async def visitor_of(scope: dict[str, Any]) -> User | None:
    """Return the person behind the ``Authorization: Bearer`` header, else behind the session cookie, else None."""
    secret = bearer_of(scope)
    if secret is not None:
        person: User | None = await database_sync_to_async(user_of_token)(secret)
        return person
    key = scope["session"].session_key
    if not key:
        return None
    # The session in the scope was read when the socket was opened.
    session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = await get_user({**scope, "session": session})
    return user if isinstance(user, User) and user.is_active else None


def bearer_of(scope: dict[str, Any]) -> str | None:
    for name, value in scope.get("headers", []):
        if name == b"authorization":
            scheme, _, secret = value.decode("latin1").partition(" ")
            if scheme.lower() == "bearer":
                return str(secret.strip())
    return None

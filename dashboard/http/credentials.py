"""The person behind a socket. Checked again and again, for all sockets together, since sessions end and tokens are
revoked while sockets are open."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from dashboard.http.asgi import Scope
from runs.models import User
from runs.rights.access import users_of_tokens


@dataclass(frozen=True)
class Credential:
    """Credential of a handshake: the secret of a token, or the key of a session."""

    secret: str
    is_token: bool


def credential_of(scope: Scope) -> Credential:
    """Return the ``Authorization: Bearer`` header's secret, else the session cookie's key (empty: none)."""
    secret = bearer_of(scope)
    if secret is not None:
        return Credential(secret, is_token=True)
    return Credential(scope["cookies"].get(settings.SESSION_COOKIE_NAME, ""), is_token=False)


def users_of(credentials: Iterable[Credential]) -> dict[Credential, User]:
    """Return the person behind each credential, without those that open nothing."""
    wanted = set(credentials)
    by_token = users_of_tokens([one.secret for one in wanted if one.is_token])
    by_session = _users_of_sessions([one.secret for one in wanted if not one.is_token and one.secret])
    found = {one: (by_token if one.is_token else by_session).get(one.secret) for one in wanted}
    return {credential: user for credential, user in found.items() if user is not None}


def user_of(credential: Credential) -> User | None:
    return users_of([credential]).get(credential)


def _users_of_sessions(keys: list[str]) -> dict[str, User]:
    """django.contrib.auth.get_user() for many sessions, in two queries instead of two for each."""
    if not keys:
        return {}
    rows = SessionStore.get_model_class().objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    store = SessionStore()
    contents = {row.session_key: store.decode(row.session_data) for row in rows}
    signed_in = {
        key: content
        for key, content in contents.items()
        if SESSION_KEY in content and content.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
    }
    people = User.objects.in_bulk({int(content[SESSION_KEY]) for content in signed_in.values()})
    found = {}
    for key, content in signed_in.items():
        user = people.get(int(content[SESSION_KEY]))
        if user is not None and user.is_active and _is_of(content.get(HASH_SESSION_KEY, ""), user):
            found[key] = user
    return found


def _is_of(session_hash: str, user: User) -> bool:
    """Return whether the session began under the password that the person has now."""
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(session_hash, one) for one in hashes)


def bearer_of(scope: Scope) -> str | None:
    for name, value in scope.get("headers", []):
        if name == b"authorization":
            scheme, _, secret = value.decode("latin1").partition(" ")
            if scheme.lower() == "bearer":
                return secret.strip()
    return None

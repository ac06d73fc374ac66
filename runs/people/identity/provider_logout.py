"""Back-channel logout (OpenID Connect Back-Channel Logout 1.0): the provider says that a session ended there."""

import time

import httpx
import jwt
import structlog
from jwt.exceptions import PyJWTError

from runs.actions.people.ways_in import end_rows
from runs.models import BrowserSession
from runs.people.identity.provider_calls import MAX_ANSWER_BYTES, TIMEOUT_S, places_of
from runs.people.identity.providers import Provider
from trainyard.contract.base import BadDocument, JsonObject, clean, decode
from trainyard.rest.http_clients import outside_client

log = structlog.get_logger(__name__)

EVENT = "http://schemas.openid.net/event/backchannel-logout"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]  # by public keys alone
MAX_AGE_S = 300.0


class BadLogout(ValueError):
    """A logout token that is not genuine, too old, or about nobody."""


def end_at_providers_word(provider: Provider, token: str) -> int:
    """End the sessions that the token names, and return how many there were. Raises BadLogout."""
    claims = _verified(provider, token)
    events, subject, sid = claims.get("events"), str(claims.get("sub", "")), str(claims.get("sid", ""))
    if not isinstance(events, dict) or EVENT not in events or "nonce" in claims:
        raise BadLogout("it is no logout token")
    if not subject and not sid:
        raise BadLogout("it names no session and no subject")
    if not 0 <= time.time() - float(claims["iat"]) + 60 <= MAX_AGE_S + 60:
        raise BadLogout("it is too old, or of the future")
    rows = BrowserSession.objects.filter(provider_session__provider=provider.id)
    rows = rows.filter(provider_session__sid=sid) if sid else rows
    rows = rows.filter(provider_session__subject=subject) if subject else rows
    found = list(rows)
    end_rows(found)
    log.info("sign_in.ended_by_provider", provider=provider.id, num_sessions=len(found))
    return len(found)


def _verified(provider: Provider, token: str) -> JsonObject:
    try:
        header = jwt.get_unverified_header(token)
        keys = jwt.PyJWKSet.from_dict(_keys_of(provider))
        key = next((one for one in keys.keys if one.key_id == header.get("kid")), None)
        if key is None or header.get("alg") not in ALGORITHMS:
            raise BadLogout("its key is not the provider's")
        claims: JsonObject = jwt.decode(
            token,
            key=key,
            algorithms=ALGORITHMS,
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=60,
            options={"require": ["iss", "aud", "iat"]},
        )
        cleaned: JsonObject = clean(claims)
        return cleaned
    except (PyJWTError, ValueError, TypeError) as error:
        raise error if isinstance(error, BadLogout) else BadLogout(type(error).__name__) from error


def _keys_of(provider: Provider) -> JsonObject:
    """Return the provider's public keys. Raises BadLogout where it does not answer."""
    try:
        with outside_client(timeout=TIMEOUT_S, follow_redirects=False) as client:
            answer = client.get(places_of(provider, client).jwks_uri).raise_for_status()
            found: JsonObject = decode(answer.content[:MAX_ANSWER_BYTES], dict)
            return found
    except (httpx.HTTPError, httpx.InvalidURL, BadDocument) as error:
        raise BadLogout("the provider's keys cannot be read") from error

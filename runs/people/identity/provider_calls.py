"""Calls of this server to an identity provider besides the sign-in itself: whether a person may stay signed in."""

import time
from enum import Enum
from typing import NamedTuple

import httpx
import structlog

from runs.people.identity.providers import Provider
from runs.rights.secrets.sealed import NotSealed, open_text, provider_place, seal_text
from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.rest.http_clients import outside_client, why_not

log = structlog.get_logger(__name__)

TIMEOUT_S = 8.0
PLACES_FOR_S = 600.0  # for so long a provider's addresses are not asked for again
MAX_ANSWER_BYTES = 256 * 1024


class ProviderTokens(WireStruct):
    """Tokens of a provider for one session. Kept locked, shown nowhere."""

    access: str
    refresh: str = ""
    expires_at: float = 0.0  # of the access token, Unix time; 0: it did not say


class TokenVerdict(Enum):
    MAY_STAY = "may stay"
    MUST_GO = "must go"
    UNKNOWN = "unknown"  # the provider is out of reach, or refuses this site as a whole


class ProviderAnswer(NamedTuple):
    verdict: TokenVerdict
    reason: str = ""
    tokens: ProviderTokens | None = None  # new ones


class Places(WireStruct):
    """The addresses of a provider, from its discovery document (OpenID Connect Discovery 1.0)."""

    issuer: str
    token_endpoint: str
    jwks_uri: str = ""
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class TokenAnswer(WireStruct):
    access_token: str
    refresh_token: str = ""
    expires_in: float | None = None


class TokenError(WireStruct):
    """An error of the token endpoint (RFC 6749, 5.2)."""

    error: str = ""


_places: dict[str, tuple[float, Places]] = {}


def ask(provider: Provider, subject: str, tokens: ProviderTokens) -> ProviderAnswer:
    """Return whether the person may stay signed in: by their refresh token, without one by the user info."""
    try:
        with outside_client(timeout=TIMEOUT_S, follow_redirects=False) as client:
            places = places_of(provider, client)
            if tokens.refresh:
                return _refresh(provider, places, tokens, client)
            return _look_up(places, subject, tokens, client)
    except (httpx.HTTPError, httpx.InvalidURL, BadDocument, OSError) as error:
        log.warning("provider.away", provider=provider.id, error=why_not(error))
        return ProviderAnswer(TokenVerdict.UNKNOWN, "The provider does not answer.")


def places_of(provider: Provider, client: httpx.Client) -> Places:
    """Return the provider's addresses, asked for at most every ten minutes. Raises httpx.HTTPError, BadDocument."""
    asked_at, places = _places.get(provider.issuer, (0.0, None))
    if places is None or time.monotonic() - asked_at > PLACES_FOR_S:
        answer = client.get(f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        places = decode(answer.raise_for_status().content[:MAX_ANSWER_BYTES], Places)
        if places.issuer.rstrip("/") != provider.issuer.rstrip("/"):
            raise BadDocument(f"issuer: {places.issuer!r} is not the provider's")
        _places[provider.issuer] = (time.monotonic(), places)
    return places


def _refresh(provider: Provider, places: Places, tokens: ProviderTokens, client: httpx.Client) -> ProviderAnswer:
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
    secret = provider.secret()
    methods = places.token_endpoint_auth_methods_supported
    if not secret or "client_secret_post" in methods:  # as at the sign-in itself
        form |= {"client_id": provider.client_id} | ({"client_secret": secret} if secret else {})
        answer = client.post(places.token_endpoint, data=form)
    else:
        answer = client.post(places.token_endpoint, data=form, auth=(provider.client_id, secret))
    if answer.status_code == 200:
        found = decode(answer.content[:MAX_ANSWER_BYTES], TokenAnswer, is_secret=True)
        return ProviderAnswer(TokenVerdict.MAY_STAY, tokens=tokens_of(found, tokens.refresh))
    error = _error_in(answer)
    if error == "invalid_grant":  # the person is gone, their session ended there, or the token is too old
        return ProviderAnswer(TokenVerdict.MUST_GO, "The provider ended the session.")
    log.warning("provider.refused", provider=provider.id, status=answer.status_code, error=error)
    return ProviderAnswer(TokenVerdict.UNKNOWN, f"The provider answered {answer.status_code} {error}.")


def _look_up(places: Places, subject: str, tokens: ProviderTokens, client: httpx.Client) -> ProviderAnswer:
    if tokens.expires_at and time.time() > tokens.expires_at:
        return ProviderAnswer(TokenVerdict.MUST_GO, "The provider gave no way to renew the session.")
    if not places.userinfo_endpoint:
        return ProviderAnswer(TokenVerdict.UNKNOWN, "The provider has no user info.")
    answer = client.get(places.userinfo_endpoint, headers={"Authorization": f"Bearer {tokens.access}"})
    if answer.status_code in (401, 403):
        return ProviderAnswer(TokenVerdict.MUST_GO, "The provider does not know the person any more.")
    if answer.status_code != 200:
        return ProviderAnswer(TokenVerdict.UNKNOWN, f"The provider answered {answer.status_code}.")
    if decode(answer.content[:MAX_ANSWER_BYTES], Subject).sub != subject:
        return ProviderAnswer(TokenVerdict.MUST_GO, "The provider named somebody else.")
    return ProviderAnswer(TokenVerdict.MAY_STAY)


class Subject(WireStruct):
    sub: str


def _error_in(answer: httpx.Response) -> str:
    try:
        return decode(answer.content[:MAX_ANSWER_BYTES], TokenError).error[:60]
    except BadDocument:
        return ""


def tokens_of(answer: TokenAnswer, refresh: str = "") -> ProviderTokens:
    """Return what to keep of the answer; a refresh token that it does not replace stays."""
    expires_at = time.time() + answer.expires_in if answer.expires_in else 0.0
    return ProviderTokens(access=answer.access_token, refresh=answer.refresh_token or refresh, expires_at=expires_at)


def lock_tokens(provider_id: str, subject: str, tokens: ProviderTokens) -> str:
    """Return what is stored of the tokens, for this subject alone. Raises KeyProblem."""
    return seal_text(provider_place(provider_id, subject), encode(tokens))


def open_tokens(provider_id: str, subject: str, locked: str) -> ProviderTokens | None:
    """Return what was locked; None for what no key of this server opens. Raises KeyProblem where the key cannot be had
    now."""
    try:
        return decode(open_text(provider_place(provider_id, subject), locked), ProviderTokens, is_secret=True)
    except (NotSealed, BadDocument):
        return None

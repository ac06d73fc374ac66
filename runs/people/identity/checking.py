"""Sessions that came through a provider are confirmed there again and again, by a thread of control's own: a provider
may answer slowly. Whom it does not confirm is signed out, or whom it names itself (OpenID Connect's logout)."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import jwt
import structlog
from django.conf import settings
from django.utils import timezone
from jwt.exceptions import PyJWTError

from runs.actions.people.ways_in import end_rows
from runs.models import BrowserSession, ProviderSession
from runs.people.identity.people import reconcile_roles
from runs.people.identity.provider_calls import (
    MAX_ANSWER_BYTES,
    TIMEOUT_S,
    ProviderAnswer,
    TokenVerdict,
    ask,
    lock_tokens,
    open_tokens,
    places_of,
)
from runs.people.identity.providers import Provider
from runs.rights.secrets.key_stores import KeyProblem
from runs.serving.clock import Clock
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, clean, decode
from trainyard.rest.http_clients import outside_client

log = structlog.get_logger(__name__)

EVERY_S = 3.0
IDLE_EVERY_S = 30.0  # without a provider in the settings: what is left of former ones ends
NUM_THREADS = 8
BATCH = 200


class Arrival(WireStruct):
    """Answer of a provider at a sign-in, until the session has begun. It waits in the browser's session."""

    provider: str
    subject: str
    sid: str
    locked: str = ""  # the tokens; a provider by SAML gives none
    ends_at: float = 0.0  # Unix time at which the provider ends the session; 0: it did not say


def keep_for_checks(session: BrowserSession, provider: Provider, arrival: Arrival) -> None:
    """Remember what the provider gave for the session, to ask it with."""
    now = timezone.now()
    confirmed_at = now
    if arrival.ends_at:  # as if it had been confirmed so long before that it is unconfirmed for too long then
        ends_at = datetime.fromtimestamp(arrival.ends_at, UTC)
        confirmed_at = min(now, ends_at - timedelta(hours=provider.unconfirmed_hours))
    ProviderSession.objects.update_or_create(
        session=session,
        defaults={
            "provider": provider.id,
            "subject": arrival.subject,
            "sid": arrival.sid,
            "locked": arrival.locked,
            "confirmed_at": confirmed_at,
            "check_at": now + timedelta(seconds=provider.check_every_s),
        },
    )


def check_due(now: datetime) -> int:
    """Ask for all sessions whose time has come. Return how many were asked for."""
    due = list(_claim_due(now))
    if not due:
        return 0
    with ThreadPoolExecutor(min(NUM_THREADS, len(due)), "provider-check") as pool:
        answers = list(pool.map(_asked, due))
    for row, answer in zip(due, answers, strict=True):
        _apply(row, answer, now)
    return len(due)


def _claim_due(now: datetime) -> Iterator[ProviderSession]:
    """Yield the rows that are due and that no other control process took at this moment."""
    for row in ProviderSession.objects.filter(check_at__lte=now).select_related("session").order_by("check_at")[:BATCH]:
        provider = settings.SIGN_IN.provider(row.provider)
        next_at = now + timedelta(seconds=provider.check_every_s if provider is not None else 30)
        if ProviderSession.objects.filter(pk=row.pk, check_at=row.check_at).update(check_at=next_at):
            yield row


def _asked(row: ProviderSession) -> ProviderAnswer:
    """Ask for one session. No database in here: it runs in a thread of the pool."""
    provider = settings.SIGN_IN.provider(row.provider)
    if provider is None:
        return ProviderAnswer(TokenVerdict.MUST_GO, "The provider is not in the settings any more.")
    if provider.protocol == "saml":
        return ProviderAnswer(TokenVerdict.UNKNOWN, "SAML has no way to ask.")
    try:
        tokens = open_tokens(row.provider, row.subject, row.locked)
    except KeyProblem as error:
        return ProviderAnswer(TokenVerdict.UNKNOWN, str(error))
    if tokens is None:
        return ProviderAnswer(TokenVerdict.MUST_GO, "The server's key is another one now.")
    return ask(provider, row.subject, tokens)


def _apply(row: ProviderSession, answer: ProviderAnswer, now: datetime) -> None:
    provider = settings.SIGN_IN.provider(row.provider)
    if answer.verdict == TokenVerdict.UNKNOWN and provider is not None:
        if now - row.confirmed_at < timedelta(hours=provider.unconfirmed_hours):
            return
        answer = ProviderAnswer(TokenVerdict.MUST_GO, "The provider was out of reach for too long.")
    if answer.verdict == TokenVerdict.MAY_STAY:
        changes: dict[str, object] = {"confirmed_at": now}
        if answer.tokens is not None:
            try:
                changes["locked"] = lock_tokens(row.provider, row.subject, answer.tokens)
            except KeyProblem as error:  # the old tokens stay; a provider that takes each once ends the session then
                log.warning("sign_in.tokens_not_kept", provider=row.provider, error=str(error))
        ProviderSession.objects.filter(pk=row.pk).update(**changes)
        return
    log.info("sign_in.not_confirmed", provider=row.provider, user=row.session.user_id, reason=answer.reason)
    end_rows([row.session])


def check_clock() -> Clock:
    """The settings are read at a start: so their roles are looked at once, by the first step that succeeds."""
    has_reconciled = False

    def step(now: datetime) -> int:
        nonlocal has_reconciled
        if not has_reconciled:
            reconcile_roles(settings.SIGN_IN.providers)
            has_reconciled = True
        return check_due(now)

    return Clock("provider-checks", step, every_s=EVERY_S if settings.SIGN_IN.providers else IDLE_EVERY_S)


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

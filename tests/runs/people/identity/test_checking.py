"""Sessions that came through a provider end when it no longer confirms them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from runs.models import BrowserSession, ProviderSession
from runs.people.identity import provider_calls
from runs.people.identity.checking import EVENT, Arrival, BadLogout, check_due, end_at_providers_word, keep_for_checks
from runs.people.identity.provider_calls import ProviderTokens, lock_tokens, open_tokens
from runs.people.identity.providers import Provider, SignInSettings
from runs.people.identity.sessions import begin_session
from tests.cast import Cast
from tests.runs.people.identity.test_claims import provider

pytestmark = pytest.mark.django_db
Answers = dict[str, Callable[[httpx.Request], httpx.Response]]
LATER = timedelta(seconds=31)
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """What the provider answers, by path. It is out of reach elsewhere."""
    issuer = "https://id.example.com"
    places = {"issuer": issuer, "token_endpoint": f"{issuer}/token", "userinfo_endpoint": f"{issuer}/me"}
    places["jwks_uri"] = f"{issuer}/keys"
    known: Answers = {"/.well-known/openid-configuration": lambda _: httpx.Response(200, json=places)}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path not in known:
            raise httpx.ConnectError("nobody is there")
        return known[request.url.path](request)

    real = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: real(**options | {"transport": httpx.MockTransport(answer)}))
    monkeypatch.setattr(provider_calls, "_places", {})
    return known


@pytest.fixture
def corp(settings: Any) -> Provider:
    one = provider(check_every_s=30, unconfirmed_hours=1)
    settings.SIGN_IN = SignInSettings(providers=(one,))
    return one


def session_of(cast: Cast, corp: Provider, tokens: ProviderTokens, subject: str = "7") -> BrowserSession:
    store = SessionStore()
    store.create()
    row = begin_session(user=cast.mate, session_key=store.session_key or "", method="corp", address="", agent="")
    keep_for_checks(row, corp, Arrival("corp", subject, "sid-1", lock_tokens("corp", subject, tokens)))
    return row


def is_there(row: BrowserSession) -> bool:
    return BrowserSession.objects.filter(pk=row.pk).exists() and SessionStore().exists(row.session_key)


def test_nobody_is_asked_before_it_is_time(cast: Cast, corp: Provider, answers: Answers) -> None:
    session_of(cast, corp, ProviderTokens("a", "r"))
    assert check_due(timezone.now()) == 0


def test_a_refresh_that_is_granted_keeps_the_session_and_its_new_tokens(
    cast: Cast, corp: Provider, answers: Answers
) -> None:
    row = session_of(cast, corp, ProviderTokens("a", "r"))
    answers["/token"] = lambda request: httpx.Response(
        200 if b"refresh_token=r" in request.content else 500,
        json={"access_token": "a2", "refresh_token": "second-refresh"},
    )
    assert check_due(timezone.now() + LATER) == 1 and is_there(row)
    stored = ProviderSession.objects.get()
    tokens = open_tokens("corp", "7", stored.locked)
    assert tokens is not None and (tokens.access, tokens.refresh) == ("a2", "second-refresh")
    assert "second-refresh" not in stored.locked and check_due(timezone.now() + LATER) == 0


@pytest.mark.parametrize(
    ("status", "document", "stays"),
    [
        (400, {"error": "invalid_grant"}, False),
        (401, {"error": "invalid_client"}, True),
        (500, {}, True),
        (200, {"no": "token"}, True),
        (429, {"error": "slow_down"}, True),
    ],
)
def test_only_a_grant_that_ended_ends_the_session(
    cast: Cast, corp: Provider, answers: Answers, status: int, document: dict[str, str], stays: bool
) -> None:
    row = session_of(cast, corp, ProviderTokens("a", "r"))
    answers["/token"] = lambda _: httpx.Response(status, json=document)
    check_due(timezone.now() + LATER)
    assert is_there(row) is stays


def test_a_provider_out_of_reach_ends_sessions_only_after_hours(cast: Cast, corp: Provider, answers: Answers) -> None:
    row = session_of(cast, corp, ProviderTokens("a", "r"))
    check_due(timezone.now() + LATER)
    assert is_there(row)
    check_due(timezone.now() + timedelta(hours=1, minutes=1))
    assert not is_there(row)


@pytest.mark.parametrize(
    ("answer", "stays"),
    [(httpx.Response(200, json={"sub": "7"}), True), (httpx.Response(401), False),
     (httpx.Response(200, json={"sub": "8"}), False), (httpx.Response(503), True)],
)  # fmt: skip
def test_without_a_refresh_token_the_user_info_is_asked(
    cast: Cast, corp: Provider, answers: Answers, answer: httpx.Response, stays: bool
) -> None:
    row = session_of(cast, corp, ProviderTokens("a", expires_at=time.time() + 3600))
    answers["/me"] = lambda _: answer
    check_due(timezone.now() + LATER)
    assert is_there(row) is stays


def test_what_cannot_be_asked_for_any_more_ends(cast: Cast, corp: Provider, answers: Answers, settings: Any) -> None:
    expired = session_of(cast, corp, ProviderTokens("a", expires_at=time.time() - 1))
    check_due(timezone.now() + LATER)
    assert not is_there(expired)
    other = session_of(cast, corp, ProviderTokens("a", "r"))
    settings.SIGN_IN = SignInSettings()
    check_due(timezone.now() + LATER)
    assert not is_there(other)


def logout_token(**changes: Any) -> str:
    claims = {
        "iss": "https://id.example.com",
        "aud": "trainyard",
        "iat": time.time(),
        "events": {EVENT: {}},
        "sub": "7",
    }
    claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k1"})


@pytest.fixture
def keys(answers: Answers) -> None:
    document = {**jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k1", "alg": "RS256"}
    answers["/keys"] = lambda _: httpx.Response(200, json={"keys": [document]})


def test_the_provider_ends_the_sessions_that_it_names(cast: Cast, corp: Provider, keys: None) -> None:
    row, other = session_of(cast, corp, ProviderTokens("a")), session_of(cast, corp, ProviderTokens("a"), "8")
    assert end_at_providers_word(corp, logout_token(sid="sid-1")) == 1
    assert not is_there(row) and is_there(other)


def forged() -> str:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {
        "iss": "https://id.example.com",
        "aud": "trainyard",
        "iat": time.time(),
        "events": {EVENT: {}},
        "sub": "7",
    }
    return jwt.encode(claims, other, algorithm="RS256", headers={"kid": "k1"})


def test_a_name_that_no_database_takes_ends_nothing(cast: Cast, corp: Provider, keys: None) -> None:
    row = session_of(cast, corp, ProviderTokens("a"))
    for name in ("\ud800", "7\0"):
        assert end_at_providers_word(corp, logout_token(sub=name)) == 0
        assert end_at_providers_word(corp, logout_token(sid=name)) == 0
    assert is_there(row)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        forged(),
        jwt.encode({"sub": "7", "events": {EVENT: {}}}, "", algorithm="none", headers={"kid": "k1"}),
        logout_token(aud="somebody else"),
        logout_token(iss="https://evil.example.com"),
        logout_token(iat=time.time() - 4000),
        logout_token(iat=time.time() + 4000),
        logout_token(iat=None),
        logout_token(sub=None),
        logout_token(events=None),
        logout_token(nonce="n"),
    ],
)
def test_a_logout_that_is_not_genuine_ends_nothing(cast: Cast, corp: Provider, keys: None, token: str) -> None:
    row = session_of(cast, corp, ProviderTokens("a"))
    with pytest.raises(BadLogout):
        end_at_providers_word(corp, token)
    assert is_there(row)

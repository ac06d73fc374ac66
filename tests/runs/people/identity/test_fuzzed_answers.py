"""What an identity provider may say, genuine and not: people come in or are refused with a sentence, and nothing else
is raised."""

from __future__ import annotations

import base64
import json
import time
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.db import transaction
from django.test import Client
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from runs.people.identity import checking
from runs.people.identity.checking import EVENT
from runs.people.identity.people import NotAdmitted, person_of
from runs.people.identity.providers import SignInSettings, claims_of
from tests.cast import Cast
from tests.fuzzed_requests import Asked, Sender, headers, query, texts
from tests.fuzzing import changed, fuzz, mutated
from tests.runs.people.identity.test_claims import provider
from tests.saml_answers import assertion, response, saml_provider, sent, signed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.timeout(7200)]
FORM = "application/x-www-form-urlencoded"
CLAIMS = {
    "sub": "7", "email": "ann@example.com", "email_verified": True, "preferred_username": "ann", "given_name": "Ann",
    "family_name": "Archer", "groups": ["ml"], "sid": "s1", "realm_access": {"roles": ["ml"]},
}  # fmt: skip


def test_claims_of_any_kind_sign_in_or_are_refused(cast: Cast) -> None:
    corp = provider(create_people=True, emails_are_verified=True)

    def check(documents: list[Any]) -> None:
        with suppress(ValueError, NotAdmitted), transaction.atomic():
            person_of(corp, claims_of(corp, *[one for one in documents if isinstance(one, dict)]))
            transaction.set_rollback(True)

    fuzz(st.lists(changed(CLAIMS), min_size=1, max_size=2), check, "claims of a provider")


def test_no_logout_at_a_providers_word_makes_the_server_fail(
    settings: Any, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    corp = provider()
    settings.SIGN_IN = SignInSettings(providers=(corp,))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "k1"}
    monkeypatch.setattr(checking, "_keys_of", lambda _: {"keys": [public]})  # else asked for over the network
    now = int(time.time())
    claims = {"iss": corp.issuer, "aud": corp.client_id, "iat": now, "sub": "7", "sid": "s1", "events": {EVENT: {}}}

    def token(payload: Any, header: Any) -> str:
        if isinstance(payload, dict) and payload.get("iat") == now:  # unchanged: ten thousand outlast a token's life
            payload = {**payload, "iat": int(time.time())}
        head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
        body = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=")
        seal = base64.urlsafe_b64encode(RSAAlgorithm(RSAAlgorithm.SHA256).sign(head + b"." + body, key))
        return b".".join([head, body, seal.rstrip(b"=")]).decode()

    header = {"alg": "RS256", "kid": "k1"}
    tokens = st.one_of(
        st.builds(token, changed(claims), st.just(header)),
        st.builds(token, st.just(claims), changed(header)),
        mutated(token(claims, header).encode()).map(lambda one: one.decode("latin1")),
        texts,
    )
    place = "/sign-in/with/corp/logout/"

    def is_good(client: Client) -> bool:
        good = query({"logout_token": token(claims, header)}).encode()
        return client.generic("POST", place, good, content_type=FORM).status_code == 200

    sender = Sender(Client(), is_good)
    forms = tokens.map(lambda one: query({"logout_token": one}).encode())
    sender.fuzz(st.builds(lambda body, more: Asked("POST", place, body, FORM, more), forms, headers), "logout tokens")


def test_no_saml_answer_makes_the_server_fail(settings: Any, cast: Cast, tmp_path: Any) -> None:
    settings.SIGN_IN = SignInSettings(providers=(saml_provider(tmp_path),))
    settings.PUBLIC_URL = "http://testserver"
    place = "http://testserver/sign-in/with/corp/assertion/"
    facts: dict[str, Any] = {
        "back": place,
        "audience": "http://testserver/sign-in/with/corp/metadata/",
        "request": "r1",
    }
    right = response(signed(assertion(**facts)), back=place, request="r1").encode()
    plain = st.text(st.characters(min_codepoint=32, max_codepoint=0xD7FF, exclude_characters="<>&\"'"), max_size=40)
    odd: Any = st.fixed_dictionaries({}, optional={
        "name": plain, "id": plain, "issuer": plain, "kind": plain, "request": plain, "ends_in": st.floats(-1e9, 1e9),
        "email": st.lists(plain, max_size=3), "groups": st.lists(plain, max_size=3),
    })  # fmt: skip

    def genuine(changes: dict[str, Any]) -> str:
        with suppress(Exception):  # what is no XML cannot be signed
            return sent(response(signed(assertion(**{**facts, **changes})), back=place, request="r1"))
        return ""

    answers = st.one_of(
        odd.map(genuine),
        mutated(right).map(lambda one: base64.b64encode(one).decode()),
        mutated(base64.b64encode(right)).map(lambda one: one.decode("latin1")),
        texts,
    )
    forms = st.builds(lambda one, more: query({"SAMLResponse": one, "RelayState": more}).encode(), answers, texts)
    path = "/sign-in/with/corp/assertion/"
    posts = st.builds(lambda body, more: Asked("POST", path, body, FORM, more), forms, headers)
    cookies = mutated(b"eyJhIjoxfQ:1abc:sig").map(lambda one: "".join(map(chr, (byte for byte in one if byte >= 32))))
    gets = cookies.map(lambda one: Asked("GET", path, headers={"Cookie": f"trainyard-saml={one}"}))
    sender = Sender(Client(), lambda one: one.get("/sign-in/").status_code == 200)
    sender.fuzz(posts | gets, "answers by SAML", min_right=0)

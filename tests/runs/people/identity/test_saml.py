"""Answers of a SAML provider: the genuine one is taken, and each known way to forge one is refused with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.people.identity.providers import Provider
from runs.people.identity.saml import Assertion, BadAssertion, ask, metadata_of, read_answer
from tests.saml_answers import assertion, pair, response, saml_provider, sent, signed

BACK = "https://trainyard.example.com/sign-in/with/corp/assertion/"
SITE = "https://trainyard.example.com/sign-in/with/corp/metadata/"
FACTS = {"back": BACK, "audience": SITE, "request": "_q1"}


@pytest.fixture
def corp(tmp_path: Path) -> Provider:
    return saml_provider(tmp_path)


def read(corp: Provider, document: str) -> Assertion:
    return read_answer(corp, sent(document), back=BACK, metadata=SITE, now=datetime.now(UTC))


def genuine(**changes: Any) -> str:
    return response(signed(assertion(**{**FACTS, **changes})), back=BACK, request=changes.get("request", "_q1"))


def test_a_genuine_answer_names_the_person_and_their_groups(corp: Provider) -> None:
    found = read(corp, genuine())
    claims = found.claims
    assert (claims.subject, claims.email, claims.groups) == ("ann-7", "ann@example.com", {"ml"})
    assert found.in_response_to == "_q1" and 300 < found.valid_for_s <= 700 and not claims.is_email_verified
    assert found.used_key != read(corp, genuine(id="_a2")).used_key


def test_attributes_are_known_by_their_names_of_microsoft_and_by_oids(corp: Provider) -> None:
    claimed = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims"
    named = {f"{claimed}/emailaddress": ["bo@example.com"], f"{claimed}/givenname": ["Bo"], "urn:oid:2.5.4.4": ["Lee"]}
    claims = read(corp, genuine(**named)).claims
    assert (claims.email, claims.first_name, claims.last_name) == ("bo@example.com", "Bo", "Lee")


def wrapped_beside() -> str:
    """XSW: the signed assertion stays, and a forged one stands before it."""
    return response(assertion(**FACTS, name="root", id="_evil"), signed(assertion(**FACTS)), back=BACK, request="_q1")


def wrapped_inside() -> str:
    """XSW: the forged assertion holds the signed one, in an extension of its signature."""
    good = signed(assertion(**FACTS))
    signature = re.search(r"<ds:Signature.*</ds:Signature>", good, re.DOTALL)
    assert signature
    moved = signature[0].replace(
        "</ds:Signature>", f"<ds:Object>{good.replace(signature[0], '')}</ds:Object></ds:Signature>"
    )
    evil = assertion(**FACTS, name="root", id="_evil")
    return response(evil.replace("</saml:Issuer>", f"</saml:Issuer>{moved}", 1), back=BACK, request="_q1")


def wrapped_by_the_same_name() -> str:
    """XSW: two assertions of one ID, the forged one first."""
    return response(assertion(**FACTS, name="root"), signed(assertion(**FACTS)), back=BACK, request="_q1")


ATTACKS: dict[str, tuple[Callable[[], str], str]] = {
    "unsigned": (lambda: response(assertion(**FACTS), back=BACK, request="_q1"), "not signed"),
    "another's key": (
        lambda: response(signed(assertion(**FACTS), by="attacker"), back=BACK, request="_q1"), "signature does not fit"
    ),
    "a changed name": (lambda: genuine().replace("ann-7", "root"), "signature does not fit"),
    "only the envelope signed": (
        lambda: signed(response(assertion(**FACTS), back=BACK, request="_q1")), "not signed"
    ),
    "wrapped beside": (wrapped_beside, "more than one assertion"),
    "wrapped inside": (wrapped_inside, "signature does not fit|more than one|rules of SAML"),
    "wrapped by the same name": (wrapped_by_the_same_name, "more than one assertion|signature does not fit"),
    "expired": (lambda: genuine(ends_in=-400.0), "too old"),
    "another audience": (lambda: genuine(audience="https://other.example.com"), "for another site"),
    "no audience": (lambda: genuine(audience=""), "does not say that it is for this site"),
    "another issuer": (lambda: genuine(issuer="https://evil.example.com"), "another provider"),
    "another address": (lambda: genuine(back="https://other.example.com/"), "not confirmed for this address"),
    "no request": (lambda: genuine(request=""), "answers no request"),
    "another request outside": (
        lambda: response(signed(assertion(**FACTS)), back=BACK, request="_mine"), "not confirmed|answers no request"
    ),
    "no request inside": (
        lambda: response(signed(assertion(**{**FACTS, "request": ""})), back=BACK, request="_mine"),
        "answers no request",
    ),
    "a name that changes": (
        lambda: genuine(kind="urn:oasis:names:tc:SAML:2.0:nameid-format:transient"), "changes at each sign-in"
    ),
    "a comment in the name": (lambda: genuine(name="root<!-- -->.evil"), ""),
    "an entity": (
        lambda: '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + genuine().replace("ann-7", "&e;"),
        "cannot be read",
    ),
    "no XML": (lambda: "hello", "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_answer_is_refused_with_a_sentence(corp: Provider, attack: str) -> None:
    make, words = ATTACKS[attack]
    if attack == "a comment in the name":  # a parser that stops at the comment would read "root"
        assert read(corp, make()).claims.subject == "root.evil"
        return
    with pytest.raises(BadAssertion, match=words) as refused:
        read(corp, make())
    assert "root" not in str(refused.value) and str(refused.value).startswith("The answer of the provider")


def test_two_certificates_count_while_a_provider_changes_its_own(corp: Provider) -> None:
    path = Path(corp.certificate_file)
    path.write_text(pair("next").certificate + path.read_text())
    assert read(corp, genuine()).claims.subject == "ann-7"
    path.write_text(pair("next").certificate)
    with pytest.raises(BadAssertion, match="signature"):
        read(corp, genuine())


def test_a_request_leads_to_the_provider_and_the_metadata_name_this_site(corp: Provider) -> None:
    request_id, url = ask(corp, back=BACK, metadata=SITE)
    assert url.startswith("https://id.example.com/saml/sign-on?SAMLRequest=") and request_id
    assert request_id != ask(corp, back=BACK, metadata=SITE)[0]
    document = metadata_of(corp, back=BACK, metadata=SITE).decode()
    assert f'entityID="{SITE}"' in document and BACK in document

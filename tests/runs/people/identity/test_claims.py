from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from runs.people.identity.providers import Claims, Provider, claims_of, usernames, why_not_admitted


def provider(**changes: Any) -> Provider:
    values = {"id": "corp", "name": "Corp", "issuer": "https://id.example.com", "client_id": "trainyard"}
    return Provider(**{**values, **changes})


def test_claims_come_from_the_user_info_first_and_from_the_token_where_that_is_silent() -> None:
    found = claims_of(
        provider(),
        {"sub": "7", "email": "ann@example.com", "email_verified": True},
        {"sub": "7", "email": "old@example.com", "given_name": "Ann", "sid": "s1"},
    )
    assert found == Claims("7", "ann@example.com", True, first_name="Ann", sid="s1")


@pytest.mark.parametrize("documents", [({},), ({"sub": "7"}, {"sub": "8"}), ({"email": "a@b.c"},)])
def test_claims_without_one_subject_are_refused(documents: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(ValueError, match="subject"):
        claims_of(provider(), *documents)


def test_an_address_counts_as_verified_only_where_somebody_says_so() -> None:
    silent = {"sub": "7", "email": "ann@example.com"}
    assert not claims_of(provider(), silent).is_email_verified
    assert not claims_of(provider(), {**silent, "email_verified": "yes"}).is_email_verified
    assert claims_of(provider(), {**silent, "email_verified": "true"}).is_email_verified
    assert claims_of(provider(emails_are_verified=True), silent).is_email_verified
    assert not claims_of(provider(emails_are_verified=True), {"sub": "7"}).is_email_verified


GROUPS = [
    ({"groups": ["ml", "ops"]}, "groups", {"ml", "ops"}),
    ({"groups": ["/ml", "/ml/vision"]}, "groups", {"ml", "ml/vision"}),
    ({"groups": "ml"}, "groups", {"ml"}),
    ({"realm_access": {"roles": ["ml"]}}, "realm_access.roles", {"ml"}),
    ({"https://example.com/groups": ["ml"]}, "https://example.com/groups", {"ml"}),
    ({"groups": [1, None, {"a": 1}, "", "ml"]}, "groups", {"ml"}),
    ({"groups": {"ml": True}}, "groups", set()),
    ({}, "groups", set()),
]


@pytest.mark.parametrize(("document", "claim", "groups"), GROUPS)
def test_groups_are_read_as_providers_send_them(document: dict[str, Any], claim: str, groups: set[str]) -> None:
    assert claims_of(provider(groups_claim=claim), {"sub": "7", **document}).groups == groups


DOMAINS = [
    ({}, Claims("7"), True),
    ({"email_domains": ("Example.com",)}, Claims("7", "ann@example.COM", True), True),
    ({"email_domains": ("example.com",)}, Claims("7", "ann@example.com", False), False),
    ({"email_domains": ("example.com",)}, Claims("7", "ann@evil-example.com", True), False),
    ({"email_domains": ("example.com",)}, Claims("7", "ann@sub.example.com", True), False),
    ({"email_domains": ("example.com",)}, Claims("7"), False),
]


@pytest.mark.parametrize(("changes", "claims", "is_admitted"), DOMAINS)
def test_only_verified_addresses_of_listed_domains_are_admitted(
    changes: dict[str, Any], claims: Claims, is_admitted: bool
) -> None:
    assert (why_not_admitted(provider(**changes), claims) == "") is is_admitted


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        (Claims("7", username="ann"), ["ann", "ann-2"]),
        (Claims("7", "ann.b@example.com"), ["ann.b", "ann.b-2"]),
        (Claims("a|7"), ["person-a-7", "person-a-7-2"]),
        (Claims("7", username="CORP\\ann <script>"), ["CORP-ann-script", "CORP-ann-script-2"]),
        (Claims("7", username="///"), ["person", "person-2"]),
    ],
)
def test_user_names_are_made_of_what_may_stand_in_one(claims: Claims, names: list[str]) -> None:
    assert list(islice(usernames(claims), 2)) == names


def test_an_address_is_verified_only_by_the_document_that_names_it() -> None:
    found = claims_of(provider(), {"sub": "7", "email": "boss@example.com"}, {"sub": "7", "email_verified": True})
    assert found.email == "boss@example.com" and not found.is_email_verified

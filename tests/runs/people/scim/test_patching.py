from __future__ import annotations

from typing import Any

import pytest

from runs.people.scim.documents import (
    Comparison,
    Email,
    GroupIn,
    GroupRef,
    Operation,
    PersonName,
    ScimError,
    UserIn,
    parse_filter,
    patched_group,
    patched_user,
)

ANN = UserIn("ann@example.com", "e1", PersonName("Ann", "Archer"), [Email("ann@example.com", primary=True)], True)
KNOWN = frozenset({"username", "externalid"})


def user(*operations: dict[str, Any]) -> UserIn:
    return patched_user(ANN, [Operation(**one) for one in operations])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "value": {"active": False}},  # Okta
        {"op": "Replace", "path": "active", "value": "False"},  # Entra ID
        {"op": "replace", "path": "urn:ietf:params:scim:schemas:core:2.0:User:active", "value": False},
        {"op": "remove", "path": "active"},
    ],
)
def test_a_person_is_disabled_in_every_dialect(operation: dict[str, Any]) -> None:
    assert user(operation).active is False


def test_names_and_addresses_are_changed() -> None:
    found = user(
        {"op": "Replace", "path": "name.givenName", "value": "Anna"},
        {"op": "add", "path": 'emails[type eq "work"].value', "value": "anna@example.com"},
        {"op": "replace", "value": {"userName": "anna@example.com", "nickName": "A"}},
        {"op": "remove", "path": "externalId"},
    )
    assert (found.name.given_name, found.name.family_name, found.email) == ("Anna", "Archer", "anna@example.com")
    assert (found.user_name, found.external_id, found.active) == ("anna@example.com", "", True)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "copy", "path": "active", "value": False},
        {"op": "replace", "value": "off"},
        {"op": "replace", "path": "active", "value": "perhaps"},
        {"op": "replace", "path": "userName", "value": ""},
        {"op": "replace", "path": "userName", "value": ["a"]},
        {"op": "replace", "path": "emails", "value": [{"value": 7}]},
    ],
)
def test_a_change_that_means_nothing_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(ScimError) as error:
        user(operation)
    assert error.value.status == 400


TEAM = GroupIn("ml", "g1", [GroupRef("1"), GroupRef("2")])


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ({"op": "Add", "path": "members", "value": [{"value": "3"}]}, ["1", "2", "3"]),
        ({"op": "add", "value": {"members": [{"value": "2"}]}}, ["1", "2"]),
        ({"op": "remove", "path": 'members[value eq "1"]'}, ["2"]),
        ({"op": "Remove", "path": "members", "value": [{"value": "2"}]}, ["1"]),
        ({"op": "remove", "path": "members"}, []),
        ({"op": "replace", "path": "members", "value": [{"value": "9"}]}, ["9"]),
        ({"op": "replace", "value": {"displayName": "ml", "id": "x"}}, ["1", "2"]),
    ],
)
def test_members_of_a_group_are_changed(operation: dict[str, Any], members: list[str]) -> None:
    assert [one.value for one in patched_group(TEAM, [Operation(**operation)]).members] == members


def test_a_group_is_renamed_and_an_unknown_selection_is_refused() -> None:
    assert patched_group(TEAM, [Operation("replace", "displayName", "vision")]).display_name == "vision"
    with pytest.raises(ScimError):
        patched_group(TEAM, [Operation("remove", 'members[display eq "x"]')])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ('userName eq "ann@example.com"', Comparison("username", "ann@example.com")),
        ('  USERNAME EQ "a\\"b" ', Comparison("username", 'a"b')),
        ('urn:ietf:params:scim:schemas:core:2.0:User:externalId eq "7"', Comparison("externalid", "7")),
    ],
)
def test_a_filter_is_one_comparison(text: str, found: Comparison | None) -> None:
    assert parse_filter(text, KNOWN) == found


@pytest.mark.parametrize(
    "text",
    ['userName co "a"', "userName eq ann", 'password eq "x"', 'userName eq "a" or userName eq "b"', "(" * 10_000,
     'userName eq "' + "a" * 1000 + '"'],
)  # fmt: skip
def test_any_other_filter_is_refused(text: str) -> None:
    with pytest.raises(ScimError, match="filter"):
        parse_filter(text, KNOWN)

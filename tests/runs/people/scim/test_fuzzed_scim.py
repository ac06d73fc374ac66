"""What a directory may send over SCIM, and what is none: answered with a status of its own, and the next one works."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from runs.people.identity.providers import Provider
from tests.fuzzed_requests import Asked, Sender, headers, json_bodies, texts, with_query
from tests.runs.people.scim.test_scim import ANN, Scim, corp, root, scim

__all__ = ["corp", "root", "scim"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.timeout(7200)]
FILTERS = [
    'userName eq "ann@example.com"',
    'externalId eq "e1"',
    'displayName eq "ml"',
    "userName eq",
    "(" * 500,
    'a[b eq "c"]',
]
PATCH = {
    "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    "Operations": [
        {"op": "replace", "path": "active", "value": False},
        {"op": "add", "path": "members", "value": [{"value": "1"}]},
        {"op": "remove", "path": 'members[value eq "1"]'},
        {"op": "Replace", "value": {"name.givenName": "Ann", "emails": [{"value": "a@example.com"}]}},
    ],
}


def test_no_request_of_a_directory_makes_the_server_fail(corp: Provider, scim: Scim) -> None:
    person = scim("POST", "Users", ANN).json()["id"]
    group = scim("POST", "Groups", GROUP | {"members": [{"value": person}]}).json()["id"]
    bearer = {"Authorization": f"Bearer {scim.secret}"}
    sender = Sender(scim.client, lambda one: one.get(f"/scim/v2/Users/{person}", headers=bearer).status_code == 200)
    keys = st.sampled_from([person, group, "", "nosuch", "9" * 40, "%00", "a/b", "%ff"])
    kinds = st.sampled_from(["Users", "Groups", "Users", "Groups", "Schemas", "ResourceTypes", "nosuch", "%00"])
    queries = st.dictionaries(
        st.sampled_from(["filter", "startIndex", "count", "attributes", "sortBy"]),
        st.sampled_from(FILTERS) | texts,
        max_size=2,
    )
    paths = st.builds(lambda kind, key, more: with_query(f"/scim/v2/{kind}/{key}", more), kinds, keys, queries)
    methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS"])
    bodies = json_bodies(ANN) | json_bodies(GROUP) | json_bodies(PATCH)
    more = headers.map(lambda one: {**bearer, **one})
    requests: Any = st.builds(
        lambda method, path, body, more: Asked(method, path, body, "application/scim+json", more),
        methods,
        paths,
        bodies,
        more,
    )
    sender.fuzz(requests, "SCIM")


GROUP = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"],
    "displayName": "ml",
    "externalId": "g1",
    "members": [],
}

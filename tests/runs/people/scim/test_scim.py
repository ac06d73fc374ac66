"""SCIM as its clients use it: look for a person, make one, change and disable them; keep groups."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.actions.people.ways_in import disable
from runs.models import BrowserSession, Identity, Role, Token, User
from runs.people.identity.people import connect, person_of
from runs.people.identity.providers import Claims, GroupRoleSetting, Provider, SignInSettings
from runs.people.identity.sessions import begin_session
from runs.people.scim.views import create_provisioning_token, revoke_provisioning_token
from runs.rights.access import Permission, can
from tests.cast import Cast, make_user
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
ANN = {
    "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
    "userName": "ann@example.com",
    "externalId": "e1",
    "name": {"givenName": "Ann", "familyName": "Archer"},
    "emails": [{"value": "ann@example.com", "primary": True, "type": "work"}],
    "active": True,
}


class Scim:
    """A client with a token."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.client = Client()

    def __call__(self, method: str, path: str, document: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        body = json.dumps(document) if document is not None else ""
        path = f"/scim/v2/{path}"
        return self.client.generic(method, path, body, content_type="application/scim+json", headers=headers)


@pytest.fixture
def corp(settings: Any) -> Provider:
    one = provider(roles=(GroupRoleSetting("ml", "default", "member"),))
    settings.SIGN_IN = SignInSettings(providers=(one, provider(id="other")))
    return one


@pytest.fixture
def root(cast: Cast) -> User:
    return make_user("root", is_superuser=True)


@pytest.fixture
def scim(corp: Provider, root: User) -> Scim:
    return Scim(create_provisioning_token(actor=root, provider=corp)[1])


def test_it_is_off_until_a_token_is_made_and_nothing_else_opens_it(corp: Provider, root: User, cast: Cast) -> None:
    assert Scim("")("GET", "Users").status_code == 401
    token, secret = create_provisioning_token(actor=root, provider=corp)
    assert Scim(secret)("GET", "Users").status_code == 200
    _, of_root = actions.create_token(actor=root, name="x")
    browser = Scim("")
    browser.client.force_login(root)
    for refused in (Scim(""), Scim("nosuch"), Scim(of_root), browser):
        assert refused("GET", "Users").status_code == 401
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/runs", headers=bearer).status_code == 401
    revoke_provisioning_token(actor=root, token_id=token.pk)
    assert Scim(secret)("GET", "Users").status_code == 401


def test_the_page_shows_a_token_once(corp: Provider, root: User) -> None:
    client = Client()
    client.force_login(root)
    answer = client.post("/people/sign-in/scim-tokens/", {"provider": "corp"}).content.decode()
    assert "ty_scim_" in answer
    page = client.get("/people/sign-in/").content.decode()
    assert "ty_scim_" not in page and "never used" in page and "https://id.example.com" in page


def test_a_person_is_looked_for_made_and_found(scim: Scim) -> None:
    query = 'Users?filter=userName eq "ANN@example.com"'
    assert scim("GET", query).json()["totalResults"] == 0
    made = scim("POST", "Users", ANN)
    assert made.status_code == 201 and made["Content-Type"] == "application/scim+json"
    found = scim("GET", query).json()
    assert found["Resources"] == [made.json()] and made.json()["meta"]["location"].endswith(made.json()["id"])
    assert (made.json()["userName"], made.json()["active"]) == ("ann@example.com", True)
    user = User.objects.get(username="ann@example.com")
    assert user.get_full_name() == "Ann Archer" and not user.has_usable_password()
    again = scim("POST", "Users", ANN)
    assert again.status_code == 409 and again.json()["scimType"] == "uniqueness"


def test_a_person_who_was_provisioned_signs_in_as_that_person(scim: Scim, corp: Provider) -> None:
    scim("POST", "Users", ANN)
    assert person_of(corp, Claims("e1")).username == "ann@example.com"
    scim("POST", "Users", {**ANN, "userName": "bob@example.com", "externalId": "", "emails": [{"value": "bob@e.com"}]})
    assert person_of(corp, Claims("s2", "bob@e.com", True)).username == "bob@example.com"


DISABLED = {"Operations": [{"op": "Replace", "path": "active", "value": "False"}]}


def test_whoever_is_disabled_loses_sessions_tokens_and_what_they_handed_out(scim: Scim, cast: Cast) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    user = User.objects.get(username="ann@example.com")
    cast.project.memberships.create(user=user, role=Role.OWNER)
    client = Client()
    client.force_login(user)
    begin_session(user=user, session_key="elsewhere", method="", address="", agent="")
    token, secret = actions.create_token(actor=user, name="x")
    _, invitation = actions.invite(actor=user, project=cast.project, role=Role.VIEWER)
    assert scim("PATCH", f"Users/{key}", DISABLED).json()["active"] is False
    assert client.get("/runs/").status_code == 302 and not BrowserSession.objects.filter(user=user).exists()
    assert Client().get("/api/v1/runs", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert Client().get(f"/invitations/{invitation}/").status_code == 410
    scim("PATCH", f"Users/{key}", {"Operations": [{"op": "replace", "value": {"active": True}}]})
    user.refresh_from_db()
    assert user.is_active and Token.objects.get(pk=token.pk).revoked_at is not None


def test_a_deleted_person_is_gone_for_the_client_and_disabled_here(scim: Scim) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    assert scim("DELETE", f"Users/{key}").status_code == 204
    assert scim("GET", f"Users/{key}").status_code == 404
    assert not User.objects.get(username="ann@example.com").is_active
    assert scim("POST", "Users", ANN).status_code == 201


def test_a_client_sees_and_changes_the_people_of_its_provider_alone(
    scim: Scim, cast: Cast, root: User, settings: Any
) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    other = Scim(create_provisioning_token(actor=root, provider=settings.SIGN_IN.provider("other"))[1])
    assert other("GET", "Users").json()["Resources"] == []
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert other(method, f"Users/{key}", {**ANN, **DISABLED}).status_code == 404
    assert other("POST", "Groups", {"displayName": "x", "members": [{"value": key}]}).status_code == 400
    assert User.objects.get(username="ann@example.com").is_active


def test_the_last_administrator_is_not_disabled_from_outside(scim: Scim, corp: Provider, root: User) -> None:
    connect(corp, Claims("r"), root)
    key = Identity.objects.get(user=root).pk
    refused = scim("PATCH", f"Users/{key}", DISABLED)
    assert refused.status_code == 409 and "last administrator" in refused.json()["detail"]
    root.refresh_from_db()
    assert root.is_active


def test_whoever_connected_by_hand_keeps_their_names(scim: Scim, corp: Provider, cast: Cast) -> None:
    connect(corp, Claims("m"), cast.mate)
    key = Identity.objects.get(user=cast.mate).pk
    scim("PUT", f"Users/{key}", {**ANN, "userName": "mate@example.com"})
    cast.mate.refresh_from_db()
    assert (cast.mate.username, cast.mate.email, cast.mate.first_name) == ("mate", "", "")


def may_launch(user: User, cast: Cast) -> bool:
    return can(User.objects.get(pk=user.pk), cast.project, Permission.RUNS_LAUNCH)


def test_groups_give_and_take_the_roles_of_the_settings(scim: Scim, cast: Cast, corp: Provider) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    user = User.objects.get(username="ann@example.com")
    group = scim("POST", "Groups", {"displayName": "ml", "members": [{"value": key}]}).json()
    assert group["members"] == [{"value": key, "display": "ann@example.com"}] and may_launch(user, cast)
    assert scim("GET", f"Users/{key}").json()["groups"] == [{"value": group["id"], "display": "ml"}]
    person_of(corp, Claims("e1"))  # no claim of groups: SCIM keeps this one
    assert may_launch(user, cast)
    remove = {"Operations": [{"op": "remove", "path": f'members[value eq "{key}"]'}]}
    assert scim("PATCH", f"Groups/{group['id']}", remove).json()["members"] == []
    assert not may_launch(user, cast)
    scim(
        "PATCH", f"Groups/{group['id']}", {"Operations": [{"op": "add", "path": "members", "value": [{"value": key}]}]}
    )
    assert may_launch(user, cast)
    assert scim("GET", 'Groups?filter=displayName eq "ML"').json()["totalResults"] == 1
    assert scim("POST", "Groups", {"displayName": "ML"}).status_code == 409
    assert scim("DELETE", f"Groups/{group['id']}").status_code == 204 and not may_launch(user, cast)


def test_a_group_that_the_client_renames_loses_the_roles_of_its_former_name(scim: Scim, cast: Cast) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    user = User.objects.get(username="ann@example.com")
    group = scim("POST", "Groups", {"displayName": "ml", "members": [{"value": key}]}).json()
    assert may_launch(user, cast)
    rename = {"Operations": [{"op": "replace", "path": "displayName", "value": "guests"}]}
    scim("PATCH", f"Groups/{group['id']}", rename)
    assert not may_launch(user, cast) and user.groups.get().name == "corp: guests"
    scim("PATCH", f"Groups/{group['id']}", {"Operations": [{"op": "replace", "path": "displayName", "value": "ml"}]})
    assert may_launch(user, cast)


def test_the_client_enables_whom_it_disabled_and_nobody_else(scim: Scim) -> None:
    key = scim("POST", "Users", ANN).json()["id"]
    user = User.objects.get(username="ann@example.com")
    without = {name: value for name, value in ANN.items() if name != "active"}
    enable = {"Operations": [{"op": "replace", "value": {"active": True}}]}
    scim("PATCH", f"Users/{key}", DISABLED)
    assert scim("PUT", f"Users/{key}", without).json()["active"] is False
    assert scim("PATCH", f"Users/{key}", enable).json()["active"] is True
    user.refresh_from_db()
    disable(user)  # by an administrator here
    assert scim("PATCH", f"Users/{key}", DISABLED).json()["active"] is False
    assert scim("PATCH", f"Users/{key}", enable).json()["active"] is False


def test_lists_come_in_pages(scim: Scim) -> None:
    for number in range(3):
        scim("POST", "Users", {"userName": f"p{number}", "externalId": f"x{number}"})
    page = scim("GET", "Users?startIndex=2&count=1").json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (3, 2, 1)
    assert page["Resources"][0]["userName"] == "p1"
    assert scim("GET", "Users?count=0").json()["Resources"] == []


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("GET", "Users?filter=password eq x", None, 400),
        ("GET", "Users?count=many", None, 400),
        ("GET", "Users/nosuch", None, 404),
        ("GET", "Users/99999999999999999999999", None, 404),
        ("GET", "Groups/7", None, 404),
        ("GET", "Nothing", None, 404),
        ("GET", "Users/1/2", None, 404),
        ("POST", "Users", {}, 400),
        ("POST", "Users", [], 400),
        ("POST", "Users", {"userName": 7}, 400),
        ("POST", "Users", {"userName": "a", "emails": [{"value": "no address"}]}, 400),
        ("PUT", "Users", ANN, 405),
        ("POST", "Groups", {"displayName": "x", "members": [{"value": "7"}]}, 400),
        ("POST", "Groups", {"displayName": "x", "members": [{"value": "/etc"}]}, 400),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    scim: Scim, method: str, path: str, document: Any, status: int
) -> None:
    answer = scim(method, path, document)
    assert answer.status_code == status and answer.json()["status"] == str(status) and answer.json()["detail"]


def test_a_client_learns_what_there_is(scim: Scim) -> None:
    assert scim("GET", "ServiceProviderConfig").json()["patch"]["supported"] is True
    assert [one["name"] for one in scim("GET", "ResourceTypes").json()["Resources"]] == ["User", "Group"]
    assert scim("GET", "Schemas").json()["totalResults"] == 2

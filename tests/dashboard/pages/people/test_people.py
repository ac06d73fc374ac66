"""Members, roles and invitations; from the link to the first sign-in."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Invitation, Membership, Project, Role, Run, User
from runs.values.status import Status
from tests.cast import Cast, allow_projects, make_user

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
PASSWORD = "correct horse battery"


def invite(client: Client, cast: Cast, **fields: str) -> str:
    """Return the path of a new invitation's link."""
    answer = client.post(f"/people/{cast.project.pk}/invite/", {"role": "member", **fields})
    found = re.search(r"/invitations/[\w-]+/", answer.content.decode())
    assert found, answer.content.decode()
    return found[0]


def role_of(user: User) -> str:
    return Membership.objects.get(user=user).role


def test_an_invitation_brings_somebody_new_in_who_can_sign_in(as_user: AsUser, anybody: Client, cast: Cast) -> None:
    path = invite(as_user(cast.owner), cast, email="mary@lab.example")
    assert b"Join default" in anybody.get(path).content
    assert anybody.post(path, {"username": "mary", "password": PASSWORD})["Location"] == "/"
    mary = User.objects.get(username="mary")
    assert role_of(mary) == "member" and mary.email == "mary@lab.example"
    assert anybody.get("/runs/").status_code == 200
    later = Client()
    assert later.post("/sign-in/", {"username": "mary", "password": PASSWORD}).status_code == 302


def test_a_link_is_shown_once_and_works_once(as_user: AsUser, anybody: Client, cast: Cast) -> None:
    client = as_user(cast.owner)
    path = invite(client, cast)
    assert path not in client.get("/people/").content.decode()
    anybody.post(path, {"username": "mary", "password": PASSWORD})
    assert Client().get(path).status_code == 410
    assert Client().post(path, {"username": "eve", "password": PASSWORD}).status_code == 410
    assert not User.objects.filter(username="eve").exists()


def test_looking_at_a_link_uses_nothing_up(as_user: AsUser, anybody: Client, cast: Cast) -> None:
    path = invite(as_user(cast.owner), cast)
    answers = [anybody.get(path), anybody.head(path), anybody.get(path)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0]["Cache-Control"] == "no-store" and answers[0]["Referrer-Policy"] == "same-origin"


def test_who_is_signed_in_joins_as_themselves(as_user: AsUser, cast: Cast) -> None:
    path = invite(as_user(cast.owner), cast, role="viewer")
    as_user(cast.outsider).post(path)
    assert role_of(cast.outsider) == "viewer"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"username": "mary", "password": "123"}, "too short"),
        ({"username": "mary", "password": ""}, "too short"),
        ({"username": "<b>", "password": PASSWORD}, "valid username"),
        ({"username": "", "password": PASSWORD}, "blank"),
        ({"username": "mate", "password": PASSWORD}, "already a person named mate"),
    ],
)
def test_a_bad_name_or_password_is_refused_beside_its_field(
    as_user: AsUser, anybody: Client, cast: Cast, fields: dict[str, str], words: str
) -> None:
    path = invite(as_user(cast.owner), cast)
    answer = anybody.post(path, fields)
    text = answer.content.decode()
    assert answer.status_code == 422 and words in text and "<b>" not in text
    assert anybody.get(path).status_code == 200 and User.objects.count() == 4  # the link still works


def test_a_withdrawn_link_opens_nothing(as_user: AsUser, anybody: Client, cast: Cast) -> None:
    client = as_user(cast.owner)
    path = invite(client, cast)
    client.post(f"/people/{cast.project.pk}/withdraw/{Invitation.objects.get().pk}/")
    assert anybody.get(path).status_code == 410


@pytest.mark.parametrize(("field", "value"), [("role", "emperor"), ("email", "no mail")])
def test_a_bad_invitation_is_refused(as_user: AsUser, cast: Cast, field: str, value: str) -> None:
    answer = as_user(cast.owner).post(f"/people/{cast.project.pk}/invite/", {"role": "member", field: value})
    assert answer.status_code == 422 and b'class="problem"' in answer.content and not Invitation.objects.exists()


@pytest.mark.parametrize("who", ["mate", "viewer"])
def test_members_are_offered_nothing_that_would_be_refused(as_user: AsUser, cast: Cast, who: str) -> None:
    text = as_user(getattr(cast, who)).get("/people/").content.decode()
    assert "owner" in text and "Make a link" not in text and "Remove" not in text


@pytest.mark.parametrize(
    ("part", "headings"),
    [
        ("members", ["Members", "Open invitations", "Invite by link", "Roles"]),
        ("access", ["Groups", "Service accounts", "Roles of this project", "Second factor", "Roles"]),
        ("secrets", ["Secrets", "Git keys"]),
        ("time", ["Where the time went"]),
        ("nothing", ["Members", "Open invitations", "Invite by link", "Roles"]),
    ],
)
def test_each_part_of_a_project_has_its_page(
    as_user: AsUser, cast: Cast, make_run: Callable[..., Run], part: str, headings: list[str]
) -> None:
    make_run(status=Status.RUNNING, fence=1)
    text = as_user(cast.owner).get(f"/people/?part={part}").content.decode()
    assert re.findall(r"<h2[^>]*>([^<]*)", text.split("<main")[1].split("</main")[0]) == headings


def test_an_outsider_finds_no_project(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.outsider)
    assert b"You are in no project" in client.get("/people/").content
    assert client.get("/people/?project=default").status_code == 404


def test_roles_are_changed_and_people_removed(as_user: AsUser, cast: Cast) -> None:
    client, base = as_user(cast.owner), f"/people/{cast.project.pk}"
    client.post(f"{base}/role/{cast.mate.pk}/", {"role": "maintainer"})
    assert role_of(cast.mate) == "maintainer"
    client.post(f"{base}/remove/{cast.mate.pk}/")
    assert not Membership.objects.filter(user=cast.mate).exists()


def test_the_last_owner_stays_and_a_maintainer_makes_no_owner(as_user: AsUser, cast: Cast) -> None:
    base = f"/people/{cast.project.pk}"
    assert as_user(cast.owner).post(f"{base}/role/{cast.owner.pk}/", {"role": "viewer"}).status_code == 409
    keeper = make_user("keeper")
    Membership.objects.create(project=cast.project, user=keeper, role=Role.MAINTAINER)
    client = as_user(keeper)
    assert client.post(f"{base}/role/{cast.mate.pk}/", {"role": "owner"}).status_code == 403
    assert client.post(f"{base}/invite/", {"role": "owner"}).status_code == 403
    assert f'action="{base}/role/{cast.owner.pk}/"' not in client.get("/people/").content.decode()


def test_somebody_may_leave(as_user: AsUser, cast: Cast) -> None:
    as_user(cast.mate).post(f"/people/{cast.project.pk}/remove/{cast.mate.pk}/")
    assert not Membership.objects.filter(user=cast.mate).exists()


def test_who_may_not_make_projects_is_offered_none_and_refused(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.owner)
    assert b"New project" not in client.get("/people/").content
    for answer in (client.get("/people/new-project/"), client.post("/people/new-project/", {"name": "mine"})):
        assert answer.status_code == 403 and b"Ask an administrator" in answer.content
    assert not Project.objects.filter(name="mine").exists()


def test_who_may_make_projects_makes_one_and_owns_it(as_user: AsUser, cast: Cast) -> None:
    client = as_user(allow_projects(cast.mate))
    assert b"New project" in client.get("/people/").content
    assert client.post("/people/new-project/", {"name": "mine"})["Location"] == "/people/?project=mine"
    assert Project.objects.get(name="mine").memberships.get().role == Role.OWNER
    assert client.post("/people/new-project/", {"name": "mine"}).status_code == 422
    assert b"valid" in client.post("/people/new-project/", {"name": "a b"}).content


def test_markup_in_names_is_text(as_user: AsUser, cast: Cast) -> None:
    User.objects.filter(pk=cast.mate.pk).update(first_name="<script>alert(1)</script>")
    assert b"<script>alert" not in as_user(cast.owner).get("/people/").content


def test_members_are_a_table_that_sorts_finds_and_asks_for_rows_again(as_user: AsUser, cast: Cast) -> None:
    cast.mate.first_name, cast.mate.last_name, cast.mate.email = "<b>Zoë", "\u202ealif", "zoe@lab.example"
    cast.mate.save()
    client, asked = as_user(cast.owner), "/people/?project=default"

    def order(query: str) -> list[str]:
        return re.findall(r'class="name clip" title="([^"]+)"', client.get(f"{asked}&{query}").content.decode())

    zoe = "&lt;b&gt;Zoë \u202ealif"
    assert order("fragment=rows") == [zoe, "owner", "viewer"]
    assert order("sort=-name&fragment=rows") == ["viewer", "owner", zoe]
    assert order("sort=role,name") == ["owner", zoe, "viewer"]  # by what a role may do, not by its letters
    assert order("q=lab.example") == [zoe] and order("q=zoë%20lab&fragment=rows") == [zoe]
    key = Membership.objects.get(user=cast.mate).pk
    assert order(f"fragment=rows&ids={key}.nonsense.0") == [zoe]
    text = client.get(f"{asked}&columns=nonsense,email&sort=nonsense").content.decode()
    assert 'data-of="email"' in text and 'data-of="role"' not in text
    assert "No member has this" in client.get(f"{asked}&q=zzz").content.decode()

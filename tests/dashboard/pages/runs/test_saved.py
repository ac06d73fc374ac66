from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.actions import make_default_view, save_view
from runs.models import Membership, Run, SavedView, User
from tests.cast import Cast

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
FETCH = {"X-Requested-With": "fetch"}
QUERY = "sort=-name&columns=status,train.steps@90"


def save(client: Client, name: str, query: str = QUERY, **fields: str) -> SavedView:
    path = "/runs/views/shared/" if "project" in fields else "/runs/views/"
    answer = client.post(path, {"name": name, "query": query, **fields}, headers=FETCH)
    assert answer.status_code == 200, answer.content
    assert answer.json()["to"] == f"/runs/?{query}"
    return SavedView.objects.order_by("saved_at").last()  # type: ignore[return-value]


def test_a_view_is_a_link_to_the_table_as_it_was_for_its_owner_alone(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    save(client, "best <b>first</b>")
    save(client, "best <b>first</b>", "sort=name")  # takes the place of the other
    context = client.get("/runs/?sort=name").context
    assert [(one.name, one.url, one.is_current) for one in context["saved"]] == [
        ("best <b>first</b>", "?sort=name", True)
    ]
    assert "<b>first" not in client.get("/runs/").content.decode()
    assert as_user(cast.owner).get("/runs/").context["saved"] == []


def test_a_view_that_is_shared_is_everybodys_and_stays_when_its_author_goes(cast: Cast, as_user: AsUser) -> None:
    view = save(as_user(cast.mate), "ours", project="default")
    Membership.objects.filter(user=cast.mate).delete()
    cast.mate.delete()
    assert [one.name for one in as_user(cast.viewer).get("/runs/").context["saved"]] == ["ours"]
    assert as_user(cast.outsider).get("/runs/").context["saved"] == []
    refused = as_user(cast.viewer).post(f"/runs/views/{view.pk}/", {"name": "mine"}, headers=FETCH)
    assert refused.status_code == 403
    assert as_user(cast.owner).post(f"/runs/views/{view.pk}/", {"name": "theirs"}, headers=FETCH).status_code == 200
    view.refresh_from_db()
    assert view.name == "theirs"


def test_the_table_begins_with_the_default_of_the_person_and_else_of_the_project(
    cast: Cast, as_user: AsUser, make_run: Callable[..., Run]
) -> None:
    make_run(name="hello")
    shared = save(as_user(cast.owner), "ours", "sort=name", project="default")
    as_user(cast.owner).post(f"/runs/views/{shared.pk}/", {"default": "1"}, headers=FETCH)
    client = as_user(cast.viewer)
    assert client.get("/runs/")["Location"] == "/runs/?sort=name"
    mine = save(client, "mine", "sort=-name")
    client.post(f"/runs/views/{mine.pk}/", {"default": "1"}, headers=FETCH)
    assert client.get("/runs/")["Location"] == "/runs/?sort=-name"
    assert client.get("/runs/", headers=FETCH).status_code == 200, "whoever takes a filter out sees all runs"
    assert client.get("/runs/?sort=status").status_code == 200
    client.post(f"/runs/views/{mine.pk}/", {"default": "0"}, headers=FETCH)
    client.post(f"/runs/views/{mine.pk}/delete/", headers=FETCH)
    assert client.get("/runs/")["Location"] == "/runs/?sort=name"


@pytest.mark.parametrize("verb", ["", "delete/"])
def test_a_view_of_somebody_else_is_not_there(verb: str, cast: Cast, as_user: AsUser) -> None:
    view = save(as_user(cast.viewer), "mine")
    answer = as_user(cast.owner).post(f"/runs/views/{view.pk}/{verb}", {"name": "x"}, headers=FETCH)
    assert answer.status_code == 404 and SavedView.objects.get().name == "mine"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "  ", "query": "sort=name"}, "A view needs a name."),
        ({"name": "long", "query": "x" * 10_001}, "A view has at most 10,000 characters in its address."),
    ],
)
def test_a_view_that_cannot_be_kept_is_refused_with_a_sentence(
    fields: dict[str, str], sentence: str, cast: Cast, as_user: AsUser
) -> None:
    answer = as_user(cast.viewer).post("/runs/views/", fields, headers=FETCH)
    assert (answer.status_code, answer.json()["sentence"]) == (409, sentence)


def test_two_views_of_one_person_have_two_names(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    save(client, "one")
    two = save(client, "two")
    answer = client.post(f"/runs/views/{two.pk}/", {"name": "one"}, headers=FETCH)
    assert (answer.status_code, answer.json()["sentence"]) == (409, "There is a view one already.")


@pytest.mark.parametrize("query", ["&", "#", "#filter=x", "&&=", "?"])
def test_no_default_leads_to_the_table_for_ever(cast: Cast, as_user: AsUser, query: str) -> None:
    view = save_view(actor=cast.mate, name="loop", query=query, project="default")
    make_default_view(actor=cast.mate, view=view)
    assert "#" not in view.query and as_user(cast.viewer).get("/runs/", follow=True).status_code == 200

from __future__ import annotations

import pytest
from django.test import Client

from runs.actions import make_sign_in_link
from tests.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("anybody")]


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_a_link_signs_in_and_leads_to_where_it_says(cast: Cast, anybody: Client) -> None:
    answer = anybody.get(f"/sign-in/{make_sign_in_link(user=cast.mate)}/?next=/runs/")
    assert (answer.status_code, answer["Location"]) == (302, "/runs/")
    assert answer["Referrer-Policy"] == "no-referrer"
    assert is_signed_in(anybody)


def test_a_link_works_once(cast: Cast, anybody: Client) -> None:
    url = f"/sign-in/{make_sign_in_link(user=cast.mate)}/"
    Client().get(url)
    answer = anybody.get(url)
    assert answer.status_code == 410
    assert "trainyard sign-in-link" in answer.content.decode()
    assert not is_signed_in(anybody)


def test_a_look_with_head_does_not_use_the_link_up(cast: Cast, anybody: Client) -> None:
    url = f"/sign-in/{make_sign_in_link(user=cast.mate)}/"
    anybody.head(url)
    anybody.get(url)
    assert is_signed_in(anybody)


def test_a_link_does_not_lead_to_another_site(cast: Cast, anybody: Client) -> None:
    answer = anybody.get(f"/sign-in/{make_sign_in_link(user=cast.mate)}/?next=https://elsewhere.example/")
    assert answer["Location"] == "/"


def test_a_secret_that_nobody_made_is_refused(anybody: Client, cast: Cast) -> None:
    assert anybody.get("/sign-in/guess/").status_code == 410


def test_a_password_signs_in(cast: Cast, anybody: Client) -> None:
    cast.mate.set_password("correct horse battery")
    cast.mate.save()
    answer = anybody.post("/sign-in/", {"username": "mate", "password": "correct horse battery", "next": "/runs/"})
    assert answer["Location"] == "/runs/"
    assert is_signed_in(anybody)


def test_a_wrong_password_is_refused_without_saying_who_exists(cast: Cast, anybody: Client) -> None:
    known = anybody.post("/sign-in/", {"username": "mate", "password": "guess"})
    unknown = anybody.post("/sign-in/", {"username": "nobody", "password": "guess"})
    assert known.status_code == unknown.status_code == 422
    sentence = "No account has this name and this password."
    assert sentence in known.content.decode()
    assert sentence in unknown.content.decode()


def test_a_person_without_a_password_cannot_sign_in_by_an_empty_one(cast: Cast, anybody: Client) -> None:
    assert anybody.post("/sign-in/", {"username": "mate", "password": ""}).status_code == 422


def test_signing_out_ends_the_session(cast: Cast, anybody: Client) -> None:
    anybody.force_login(cast.mate)
    assert anybody.post("/sign-out/")["Location"] == "/sign-in/"
    assert not is_signed_in(anybody)


def test_a_link_elsewhere_cannot_sign_a_person_out(cast: Cast, anybody: Client) -> None:
    anybody.force_login(cast.mate)
    assert anybody.get("/sign-out/").status_code == 405
    assert is_signed_in(anybody)

"""Refusals look like pages, and say something."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import User
from tests.cast import Cast

pytestmark = pytest.mark.django_db


def test_an_address_that_nothing_answers_is_a_page_in_the_frame(as_user: Callable[[User], Client], cast: Cast) -> None:
    answer = as_user(cast.mate).get("/nothing-here/")
    assert (
        answer.status_code == 404 and b"nothing at this address" in answer.content and b'class="rail"' in answer.content
    )


def test_a_stranger_gets_the_same_sentence_and_a_way_in(anybody: Client) -> None:
    answer = anybody.get("/nothing-here/")
    assert answer.status_code == 404 and b"nothing at this address" in answer.content and b"/sign-in/" in answer.content
    assert b'class="rail"' not in answer.content


def test_a_form_without_its_token_is_refused_with_a_sentence(as_user: Callable[[User], Client], cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.mate)
    answer = client.post("/account/tokens/", {"name": "x"})
    assert answer.status_code == 403 and b"This form is too old" in answer.content
    assert client.post("/account/tokens/", headers={"X-Requested-With": "fetch"}).json()["sentence"]

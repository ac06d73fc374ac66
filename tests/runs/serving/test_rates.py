"""How often one sender may ask, counted in a real Valkey, and what the one too many is answered."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from runs.actions import create_token
from runs.serving import rates
from runs.serving.rates import TooManyRequests, claim
from tests.cast import Cast
from tests.servers import Valkey


@pytest.fixture(autouse=True)
def slow_rates(valkey: Valkey, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket of a token holds 2, that of a person 4, and neither fills within a test."""
    settings.RATE_PER_TOKEN, settings.RATE_PER_PERSON = 0.01, 0.02
    monkeypatch.setattr(rates, "BURST_S", 200)
    monkeypatch.setattr(rates, "_again_at", 0.0)


def num_claimed(**who: Any) -> int:
    for number in range(20):
        try:
            claim(**who)
        except TooManyRequests as error:
            assert 1 <= error.wait_s <= 100
            return number
    return 20


def test_a_bucket_empties_and_one_too_many_takes_from_no_other() -> None:
    assert num_claimed(person=1, token="a") == 2
    assert num_claimed(person=1, token="b") == 2
    assert num_claimed(person=1, token="c") == 0, "all tokens of a person together have the person's bucket"
    assert num_claimed(person=2) == 4


def test_it_fills_again(settings: Any) -> None:
    settings.RATE_PER_PERSON = 1000.0
    rates._take({f"{rates.PREFIX}:person:1": 0.2})
    time.sleep(0.1)
    assert num_claimed(person=1) == 20


def test_nothing_is_limited_where_the_rates_are_zero_or_valkey_is_away(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RATE_PER_TOKEN = settings.RATE_PER_PERSON = 0.0
    assert num_claimed(person=1, token="a") == 20
    settings.RATE_PER_PERSON = 0.02
    monkeypatch.setattr(rates, "_again_at", float("inf"))
    assert num_claimed(person=1) == 20


@pytest.mark.django_db
def test_rest_and_pages_answer_429_with_a_sentence_and_a_time(cast: Cast) -> None:
    _, secret = create_token(actor=cast.owner, name="script")
    headers = {"authorization": f"Bearer {secret}"}
    answers = [Client().get("/api/v1/me", headers=headers) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    document = answers[-1].json()
    assert document["code"] == "too-many-requests" and "Try again in" in document["detail"]
    assert int(answers[-1]["Retry-After"]) >= 1
    page = Client()
    page.force_login(cast.mate)
    found = [page.get("/") for _ in range(5)]
    assert [one.status_code for one in found] == [200] * 4 + [429]
    assert found[-1]["Retry-After"] and b"Your account sends more requests" in found[-1].content
    health = Client().get("/api/v1/health", headers=headers)
    assert health.status_code != 429

"""Who may open a socket and who may stay, asked for many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dashboard.http.credentials import Credential, users_of
from dashboard.sockets import admission as door
from dashboard.sockets.admission import NOT_FOUND, UNKNOWN_USER, Admission, AdmissionQuestion, Answer, answers
from runs import actions
from runs.models import Membership, Role, Run, User
from runs.rights.access import Sight
from tests.cast import Cast, make_user

# Those that ask no database need it, too: a thread of the pool may look at the connection of an earlier test.
pytestmark = pytest.mark.django_db

NOTHING = Credential("", is_token=False)


def token(user: User) -> Credential:
    _, secret = actions.create_token(actor=user, name="socket", expires_at=None)
    return Credential(secret, is_token=True)


def session(user: User) -> Credential:
    client = Client()
    client.force_login(user)
    return Credential(client.cookies[settings.SESSION_COOKIE_NAME].value, is_token=False)


def test_a_token_and_a_session_open_and_nothing_else_does(cast: Cast) -> None:
    wrong = [NOTHING, Credential("wrong", is_token=False), Credential("wrong", is_token=True)]
    by_token, by_session = token(cast.viewer), session(cast.mate)
    swapped = Credential(by_session.secret, is_token=True)
    found = users_of([by_token, by_session, swapped, *wrong])
    assert found == {by_token: cast.viewer, by_session: cast.mate}


@pytest.mark.parametrize("ending", ["expired", "disabled", "password", "foreign"])
def test_a_session_that_ended_opens_nothing(cast: Cast, ending: str) -> None:
    credential = session(cast.viewer)
    assert users_of([credential])
    match ending:
        case "expired":
            Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
        case "disabled":
            User.objects.filter(pk=cast.viewer.pk).update(is_active=False)
        case "password":
            cast.viewer.set_password("another")
            cast.viewer.save()
        case "foreign":  # signed in by a way that is no longer offered
            store = Client().session
            store = type(store)(credential.secret)
            store["_auth_user_backend"] = "somebody.else"
            store.save()
    assert users_of([credential]) == {}


def test_the_answers_for_hundreds_take_a_few_queries(
    cast: Cast, make_run: Callable[..., Run], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    runs = [make_run().pk for _ in range(3)]
    people = [make_user(f"watcher-{number}") for number in range(20)]
    for person in people[:10]:
        Membership.objects.create(project=cast.project, user=person, role=Role.VIEWER)
    credentials = [token(person) for person in people[::2]] + [session(person) for person in people[1::2]]
    questions = [AdmissionQuestion(credential, run) for credential in credentials for run in runs for _ in range(4)]
    answers(questions)  # tokens are noted as used once a minute
    with django_assert_max_num_queries(5):
        found = answers(questions)
    assert len(found) == 240
    members = {person.pk for person in people[:10]}
    seen = users_of(credentials)
    for question, one in zip(questions, found, strict=True):
        if seen[question.credential].pk in members:
            assert isinstance(one, Sight) and one.sees(cast.project.pk)
        else:
            assert one == NOT_FOUND
    assert answers([AdmissionQuestion(NOTHING, runs[0]), AdmissionQuestion(credentials[0], None)])[0] == UNKNOWN_USER


class Subscriber:
    def __init__(self, question: AdmissionQuestion) -> None:
        self.question = question
        self.looks = 0
        self.code = asyncio.get_running_loop().create_future()

    def stay(self, sight: Sight) -> None:
        self.looks += 1

    def end(self, code: int) -> None:
        if not self.code.done():
            self.code.set_result(code)


async def test_a_storm_is_answered_in_batches_and_all_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    good, bad = (
        AdmissionQuestion(Credential("good", is_token=True), None),
        AdmissionQuestion(Credential("bad", is_token=True), None),
    )
    revoked: set[AdmissionQuestion] = set()

    def said(questions: list[AdmissionQuestion]) -> list[Answer]:
        sizes.append(len(questions))
        return [UNKNOWN_USER if one is bad or one in revoked else Sight(None) for one in questions]

    monkeypatch.setattr(door, "answers", said)
    monkeypatch.setattr(door, "EVERY_S", 0.01)
    one = Admission()
    subscribers = [Subscriber(bad if number % 10 == 0 else good) for number in range(1_000)]
    found = await asyncio.gather(*(one.admit(subscriber) for subscriber in subscribers))
    assert [isinstance(answer, Sight) for answer in found] == [number % 10 != 0 for number in range(1_000)]
    assert len(sizes) <= 6 and max(sizes) == door.BATCH
    inside = [subscriber for subscriber in subscribers if subscriber.question is good]
    async with asyncio.timeout(10):
        while not all(subscriber.looks for subscriber in inside):
            await asyncio.sleep(0.01)
    revoked.add(good)
    assert set(await asyncio.gather(*(subscriber.code for subscriber in inside))) == {UNKNOWN_USER}
    for subscriber in subscribers:
        one.leave(subscriber)

"""A POST whose web process died may be sent again at once; one that is still being answered is done by nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from runs import actions
from runs.api import idempotency
from runs.models import IdempotencyKey, Project
from runs.serving.transport import redis
from tests.runs.api.conftest import Api
from tests.servers import Valkey

pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.django_db(transaction=True, databases="__all__")]


def ask(api: Api) -> Any:
    return api("POST", "/projects", {"name": "vision"}, Idempotency_Key="one")


@pytest.fixture
def root(as_: Callable[[str], Api], cast: Any) -> Api:
    cast.owner.is_superuser = True
    cast.owner.save()
    return as_("owner")


def leave_unanswered(root: Api) -> None:
    """Leave behind what a web process that was killed leaves: the row, and a lease that nobody renews."""
    assert ask(root).status_code == 201
    Project.objects.filter(name="vision").delete()
    before = timezone.now() - timedelta(seconds=60)
    IdempotencyKey.objects.update(status_code=0, answer="", created_at=before)
    redis().delete(*redis().keys(f"{idempotency.LEASE}:*"))


def test_the_next_request_is_answered_once_the_first_ones_process_is_dead(root: Api) -> None:
    leave_unanswered(root)
    assert ask(root).status_code == 201
    assert ask(root)["Idempotency-Replayed"] == "true" and Project.objects.filter(name="vision").count() == 1


def test_nobody_is_taken_for_dead_while_valkey_is_away(root: Api, valkey: Valkey) -> None:
    leave_unanswered(root)
    valkey.stop()
    try:
        assert ask(root).json()["code"] == "in-progress"
    finally:
        valkey.start()


def test_a_request_that_takes_long_keeps_its_key(root: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "LEASE_S", 0.4)
    monkeypatch.setattr(idempotency, "RENEW_EVERY_S", 0.1)
    goes_on, began, answers = threading.Event(), threading.Event(), []
    create = actions.create_project

    def slowly(**values: Any) -> Project:
        began.set()
        assert goes_on.wait(60)
        return create(**values)

    def first() -> None:
        try:
            answers.append(ask(root).status_code)
        finally:
            connections.close_all()

    monkeypatch.setattr(actions, "create_project", slowly)
    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(60)
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(minutes=10))
    for _ in range(20):
        answer = ask(root)
        assert (answer.json()["code"], answer["Retry-After"]) == ("in-progress", "2")
        threading.Event().wait(0.05)
    goes_on.set()
    thread.join()
    assert answers == [201] and ask(root)["Idempotency-Replayed"] == "true"

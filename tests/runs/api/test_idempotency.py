"""A POST whose web process died may be sent again at once; one that is still being answered is done by nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone

from runs import actions
from runs.models import IdempotencyKey, Project
from tests.runs.api.conftest import Api
from tests.servers import Valkey
from tests.up_process import ROOT

pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.django_db(transaction=True, databases="__all__")]


def ask(api: Api) -> Any:
    return api("POST", "/projects", {"name": "vision"}, Idempotency_Key="one")


@pytest.fixture
def root(as_: Callable[[str], Api], cast: Any) -> Api:
    cast.owner.is_superuser = True
    cast.owner.save()
    return as_("owner")


def leave_unanswered(root: Api) -> None:
    """Leave behind what a web process that was killed leaves: the row, without its lock."""
    assert ask(root).status_code == 201
    Project.objects.filter(name="vision").delete()
    IdempotencyKey.objects.update(status_code=0, answer="")


def is_refused(root: Api) -> bool:
    answer = ask(root)
    found = (answer.status_code, answer.json().get("code"), answer.get("Retry-After"))
    return found == (409, "in-progress", "2")


def test_the_next_request_is_answered_at_once_where_the_first_ones_process_is_dead(root: Api) -> None:
    leave_unanswered(root)
    assert ask(root).status_code == 201
    assert ask(root)["Idempotency-Replayed"] == "true" and Project.objects.filter(name="vision").count() == 1


def test_valkey_is_not_needed(root: Api, valkey: Valkey) -> None:
    leave_unanswered(root)
    valkey.stop()
    try:
        assert ask(root).status_code == 201 and ask(root)["Idempotency-Replayed"] == "true"
    finally:
        valkey.start()


HOLD = """
import sys
from dashboard.up.database import set_up_django
set_up_django()
from runs.api import idempotency
from runs.models import User
with idempotency._alone(User(pk=int(sys.argv[1])), "one") as is_alone:
    print(is_alone, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif("postgresql" in connections["default"].vendor, reason="tests/whole/test_cut_off.py has PostgreSQL")
def test_a_lock_of_another_process_lasts_until_it_is_killed_also_while_it_stands_still(root: Api, cast: Any) -> None:
    environment = {**os.environ, "TRAINYARD_HOME": str(settings.HOME)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(cast.owner.pk)], cwd=ROOT, env=environment, stdin=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        try:
            assert other.stdout is not None and other.stdout.readline() == "True\n"
            assert is_refused(root)
            other.send_signal(signal.SIGSTOP)
            assert is_refused(root) and not Project.objects.filter(name="vision").exists()
        finally:
            other.kill()
    assert ask(root).status_code == 201


def test_a_request_that_takes_long_keeps_its_key(root: Api, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert all(is_refused(root) for _ in range(3))
    goes_on.set()
    thread.join()
    assert answers == [201] and ask(root)["Idempotency-Replayed"] == "true"

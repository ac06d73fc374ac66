"""An answer that takes long to send breaks off when whoever gets it loses the right to it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.cache import cache
from django.db import connection
from django.test import AsyncClient, Client

from runs import actions
from runs.api import streaming
from runs.api.metrics import csv_export
from runs.api.streaming import RightLost
from runs.models import Membership, Project, Role, Run, Token, User
from runs.records.files import outputs
from tests.cast import Cast, spec
from tests.runs.api.conftest import Api
from tests.runs.api.metrics.test_curves import logged
from tests.spools import some_points

LOSSES: dict[str, Callable[[Cast], object]] = {
    "role": lambda cast: Membership.objects.filter(user=cast.viewer).delete(),
    "account": lambda cast: User.objects.filter(pk=cast.viewer.pk).update(is_active=False),
    "token": lambda cast: actions.revoke_tokens(actor=cast.viewer, user=cast.viewer),
}


@pytest.fixture(autouse=True)
def ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "EVERY_S", 0.0)
    monkeypatch.setattr(csv_export, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(streaming, "CHUNK_BYTES", 10)
    monkeypatch.setattr(streaming, "LINES_AT_ONCE", 1)


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    made = logged(make_run(), *some_points(1, 40))
    path = outputs.output_folder(made.pk) / "model.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"0123456789" * 4)
    return made


def parts(answer: Any) -> Iterator[bytes]:
    assert answer.status_code == 200, answer.content
    return iter(answer.streaming_content)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("path", ["series.csv", "files/model.safetensors"])
def test_it_breaks_off_when_the_right_is_lost(cast: Cast, run: Run, path: str, loss: str) -> None:
    sent = parts(Api(cast.viewer)("GET", f"/runs/{run.pk}/{path}"))
    assert next(sent)
    assert next(sent)
    LOSSES[loss](cast)
    with pytest.raises(RightLost):
        next(sent)


def test_the_file_of_many_runs_and_the_audit_break_off_too(cast: Cast, run: Run) -> None:
    sent = parts(Api(cast.viewer)("GET", f"/series.csv?run={run.pk}"))
    assert next(sent)
    User.objects.update(is_staff=False)  # staff read the audit of all
    owner = Api(cast.owner)
    for word in ("a", "b", "c"):
        assert owner("PATCH", f"/runs/{run.pk}", {"tags": [word]}).status_code == 200
    audit = parts(owner("GET", "/audit/export"))
    assert next(audit)
    Membership.objects.all().delete()
    for one in (sent, audit):
        with pytest.raises(RightLost):
            list(one)


def test_it_breaks_off_when_the_session_ends(cast: Cast, run: Run) -> None:
    client = Client()
    client.force_login(cast.viewer)
    sent = parts(client.get(f"/api/v1/runs/{run.pk}/files/model.safetensors"))
    assert next(sent)
    client.logout()
    with pytest.raises(RightLost):
        next(sent)


def test_the_server_itself_breaks_it_off(cast: Cast, run: Run) -> None:
    """As uvicorn calls it: an exception, so that the connection breaks in the middle of the announced length."""
    headers = Api(cast.viewer).headers

    async def download() -> list[bytes]:
        answer: Any = await AsyncClient().get(f"/api/v1/runs/{run.pk}/files/model.safetensors", headers=headers)
        got = []
        async for part in answer.streaming_content:
            got.append(part)
            await Membership.objects.filter(user=cast.viewer).adelete()
        return got

    with pytest.raises(RightLost):
        async_to_sync(download)()


def test_whoever_keeps_the_right_gets_all_of_it(cast: Cast, run: Run) -> None:
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.viewer, role=Role.MEMBER)
    assert b"".join(parts(Api(cast.viewer)("GET", f"/runs/{run.pk}/files/model.safetensors"))) == b"0123456789" * 4
    assert Token.objects.filter(user=cast.viewer, revoked_at=None).exists()


def test_one_person_and_all_together_read_so_many_long_answers_at_once(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_OPEN", 2)
    monkeypatch.setattr(streaming, "MAX_OPEN_OF_ALL", 3)
    gc.collect()  # answers of tests before this one
    viewer, mate, owner, path = Api(cast.viewer), Api(cast.mate), Api(cast.owner), f"/runs/{run.pk}/series.csv"
    answers = [viewer("GET", path) for _ in range(2)]  # of which nobody has read anything yet
    refused = viewer("GET", path)
    assert refused.status_code == 429 and refused["Retry-After"]
    assert "which reads 2 long answers" in refused.content.decode()
    answers.append(mate("GET", path))
    refused = owner("GET", path)
    assert refused.status_code == 429 and "3 long answers at once" in refused.content.decode()
    assert b"".join(parts(answers.pop(0)))
    gc.collect()
    assert owner("GET", path).status_code == 200


@pytest.mark.django_db(transaction=True, databases="__all__")
@pytest.mark.parametrize("ending", ["csv", "arrow"])
def test_what_is_read_of_one_moment_comes_whole(cast: Cast, run: Run, ending: str) -> None:
    api, path = Api(cast.viewer), f"/runs/{run.pk}/series.{ending}"
    whole = b"".join(parts(api("GET", path)))

    async def got() -> bytes:
        answer: Any = await AsyncClient().get(f"/api/v1{path}", headers=api.headers)
        return b"".join([part async for part in answer.streaming_content])

    assert async_to_sync(got)() == whole


@pytest.mark.django_db(transaction=True)
def test_a_slow_reader_keeps_no_connection_to_the_database(cast: Cast, run: Run) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's connections are as many as they like")
    headers = Api(cast.viewer).headers

    async def kept() -> list[bool]:
        """Return after each part whether the thread that answers has a connection."""
        answer: Any = await AsyncClient().get(f"/api/v1/runs/{run.pk}/files/model.safetensors", headers=headers)
        has_one = sync_to_async(lambda: connection.connection is not None)
        return [await has_one() async for _ in answer.streaming_content]

    assert async_to_sync(kept)() == [False] * 4


REPLAYED: dict[str, Callable[[Cast], object]] = {
    "role": lambda cast: Membership.objects.filter(user=cast.mate).update(role=Role.VIEWER),
    "membership": lambda cast: Membership.objects.filter(user=cast.mate).delete(),
    "second factor": lambda cast: Project.objects.update(second_factor_from="viewer"),
}


@pytest.mark.parametrize("loss", REPLAYED)
def test_an_answer_is_not_repeated_for_whoever_lost_the_right_to_it(cast: Cast, loss: str) -> None:
    mate = Api(cast.mate)
    first = mate("POST", "/runs", spec(), Idempotency_Key="one")
    assert first.status_code == 201
    REPLAYED[loss](cast)
    cache.clear()
    again = mate("POST", "/runs", spec(), Idempotency_Key="one")
    assert again.status_code in (403, 422) and first.json()["id"] not in again.content.decode()
    assert "Idempotency-Replayed" not in again

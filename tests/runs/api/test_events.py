"""``/events``: each event that one sees, once and in order, whenever it is committed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import AsyncClient

from runs import actions
from runs.api import events, streaming
from runs.models import Event, Membership, Project, Run
from tests.cast import Cast, spec
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 20.0


@pytest.fixture(autouse=True)
def ask_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.01)
    monkeypatch.setattr(streaming, "EVERY_S", 0.0)


def write(run: Run, code: str) -> Event:
    return Event.objects.create(run=run, code=code, sentence=f"{code}.")


def follow(
    headers: dict[str, str], query: str, wanted: int, then: Callable[[], object] = lambda: None
) -> list[tuple[int, dict[str, Any]]]:
    """The id and data of the first events; ``then`` happens once the stream is open. Fewer where it ends before."""

    async def read() -> str:
        answer: Any = await AsyncClient().get(f"/api/v1/events{query}", headers=headers)
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream"), answer.content
        text, is_open = "", False
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(WAIT_S):
                async with contextlib.aclosing(answer.streaming_content) as parts:
                    async for part in parts:
                        text += part.decode()
                        if not is_open:
                            is_open = True
                            await asyncio.to_thread(_closed, then)
                        if text.count("data: ") >= wanted:
                            break
        return text

    frames = [dict(line.split(": ", 1) for line in one.splitlines()) for one in async_to_sync(read)().split("\n\n")]
    return [(int(one["id"]), json.loads(one["data"])) for one in frames if "data" in one]


def _closed(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connection.close()


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    made = make_run()
    Event.objects.all().delete()
    return made


def test_events_come_as_they_happen_and_again_from_a_cursor(cast: Cast, run: Run) -> None:
    write(run, "before")
    headers = Api(cast.viewer).headers
    (first, data), second = follow(headers, "", 2, lambda: [write(run, "one"), write(run, "two")])
    assert (data["run"], data["code"], data["sentence"], second[1]["code"]) == (run.pk, "one", "one.", "two")
    assert [one["code"] for _, one in follow(headers, f"?since={first}", 1)] == ["two"]
    assert [one["code"] for _, one in follow(headers, "?since=0", 3)] == ["before", "one", "two"]
    again = follow({**headers, "Last-Event-ID": str(first)}, "?since=0", 1)
    assert again == [second], "a browser that comes back names what it has"


def test_many_events_come_in_parts(cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "AT_ONCE", 3)
    written = [write(run, f"e{number}").pk for number in range(10)]
    assert [pk for pk, _ in follow(Api(cast.viewer).headers, "?since=0", 10)] == written


def test_events_of_projects_that_one_does_not_see_are_left_out(cast: Cast, run: Run) -> None:
    project = Project.objects.create(name="elsewhere")
    other = Run.objects.create(project=project, cluster=cast.cluster, name="hidden", spec=spec(), created_by=cast.owner)
    write(other, "hidden")
    write(run, "seen")
    assert [one["code"] for _, one in follow(Api(cast.viewer).headers, "?since=0", 1)] == ["seen"]


@pytest.mark.parametrize("loss", ["role", "token"])
def test_nothing_comes_after_the_right_is_lost(cast: Cast, run: Run, loss: str) -> None:
    def lose() -> None:
        if loss == "role":
            Membership.objects.filter(user=cast.viewer).delete()
            write(run, "late")
            actions.revoke_tokens(actor=cast.viewer, user=cast.viewer)  # ends it: nothing else could come
        else:
            actions.revoke_tokens(actor=cast.viewer, user=cast.viewer)
            write(run, "late")

    assert follow(Api(cast.viewer).headers, "", 1, lose) == []


def test_one_person_has_so_many_at_a_time_and_they_are_counted_down(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_OPEN", 1)
    headers, seen = Api(cast.viewer).headers, []

    def another() -> None:
        seen.append(Api(cast.viewer)("GET", "/events").status_code)
        write(run, "one")

    assert follow(headers, "", 1, another) and seen == [429]
    write(run, "two")
    assert follow(headers, "?since=0", 1), "the first one has ended"


def test_an_event_that_is_committed_late_is_not_missed(cast: Cast, run: Run) -> None:
    """PostgreSQL gives it a lower id than those that are committed before it."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    is_written, may_commit = threading.Event(), threading.Event()

    def slowly() -> None:
        with transaction.atomic():
            write(run, "slow")
            is_written.set()
            assert may_commit.wait(WAIT_S)
        connection.close()

    writer = threading.Thread(target=slowly)
    writer.start()
    assert is_written.wait(WAIT_S)
    write(run, "fast")
    threading.Timer(0.5, may_commit.set).start()
    assert [one["code"] for _, one in follow(Api(cast.viewer).headers, "?since=0", 2)] == ["slow", "fast"]
    writer.join()


@pytest.mark.parametrize("query", ["?since=-1", "?since=soon", f"?since={2**63}"])
def test_what_is_no_cursor_is_refused(cast: Cast, query: str) -> None:
    answer = Api(cast.viewer)("GET", f"/events{query}")
    assert answer.status_code == 422 and b"since" in answer.content

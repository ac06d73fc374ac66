"""While the database is away, REST and the pages say so with 503, soon, and work again by themselves."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, connections
from django.test import Client
from django.urls import reverse

from dashboard.http.body_limits import BodyLimit
from runs.models import Run
from runs.serving.database_away import FULL, RETRY_S, SENTENCE, is_away, sentence_for
from runs.values.status import Status
from tests.cast import Cast
from tests.servers import short_folder, start_postgresql
from tests.up_process import Up, new_home, wait_until

SOON_S = 10.0
FORM = "application/x-www-form-urlencoded"
SESSION = f"{settings.SESSION_COOKIE_NAME}={'x' * 32}"  # of nobody: to find out, the database is asked


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code
    return error


def server_error(sqlstate: str | None) -> Exception:
    error = Exception("it failed")
    error.sqlstate = sqlstate  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (caused(OperationalError(), sqlite_error(5)), True),
        (caused(OperationalError(), sqlite_error(10 | 3 << 8)), True),
        (caused(OperationalError(), sqlite_error(14)), True),
        (caused(OperationalError(), sqlite_error(1)), False),  # such as "no such table"
        (caused(OperationalError(), server_error(None)), True),
        (caused(OperationalError(), server_error("57P03")), True),
        (caused(OperationalError(), server_error("42P01")), False),
        (InterfaceError(), True),
        (ValueError(), False),
        (None, False),
    ],
)
def test_what_may_pass_is_told_from_what_stays_wrong(error: Exception | None, expected: bool) -> None:
    assert is_away(error) is expected


def test_a_full_disk_is_told_from_a_database_that_does_not_answer() -> None:
    assert sentence_for(caused(OperationalError(), sqlite_error(13))) == FULL
    assert sentence_for(caused(OperationalError(), server_error("53100"))) == FULL
    assert sentence_for(caused(OperationalError(), sqlite_error(5))) == SENTENCE
    assert sentence_for(None) == SENTENCE


@pytest.fixture
def broken(transactional_db: None, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what breaks the database for everybody from then on, as a file that another process has locked does."""

    def refuse(*_: Any) -> None:
        raise caused(OperationalError("database is locked"), sqlite_error(5))

    def break_it() -> None:
        monkeypatch.setattr(type(connections["default"]), "create_cursor", refuse)

    yield break_it
    monkeypatch.undo()


@pytest.fixture
def client(cast: Cast, transactional_db: None) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(cast.mate)
    return client


def test_rest_answers_503_and_when_to_try_again(client: Client, broken: Callable[[], None]) -> None:
    broken()
    for method, path in (("GET", "/api/v1/runs"), ("POST", "/api/v1/runs/x/stop"), ("GET", "/api/v1/me")):
        answer = client.generic(method, path)
        assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json"), path
        assert answer["Retry-After"] == str(RETRY_S)
        assert answer.json()["type"] == "urn:trainyard:problem:database-away"
    assert client.get("/api/v1/health").json()["database"] is False


def test_who_sends_a_large_body_is_told_too(client: Client, broken: Callable[[], None]) -> None:
    broken()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b" ", "more_body": False}

    async def never(*_: Any) -> None:
        raise AssertionError("nobody knows whose body it is")

    headers = [(b"authorization", b"Bearer x"), (b"content-length", b"900000")]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/bundles", "headers": headers}
    async_to_sync(BodyLimit(never))(scope, receive, send)
    assert sent[0]["status"] == 503 and (b"retry-after", b"5") in sent[0]["headers"]


def test_a_page_answers_503_and_offers_to_try_again(client: Client, broken: Callable[[], None]) -> None:
    broken()
    answer = client.get("/runs/?q=gpt")
    assert (answer.status_code, answer["Retry-After"]) == (503, str(RETRY_S))
    text = answer.content.decode()
    assert SENTENCE in text and '<a class="btn btn-primary" href="/runs/?q=gpt">Try again</a>' in text


def test_a_form_loses_nothing(client: Client, broken: Callable[[], None]) -> None:
    broken()
    fields = {"name": 'a "name" <b>', "yaml": "\nsteps: 1\n", "csrfmiddlewaretoken": "t"}
    answer = client.post("/launch/", str(httpx.QueryParams(fields)), content_type=FORM)
    text = answer.content.decode()
    assert answer.status_code == 503 and "Send again" in text and 'action="/launch/"' in text
    assert "a &quot;name&quot; &lt;b&gt;</textarea>" in text and "\n\nsteps: 1\n</textarea>" in text


def test_a_script_of_a_page_gets_the_sentence_and_keeps_its_fields(client: Client, broken: Callable[[], None]) -> None:
    broken()
    answer = client.post(reverse("annotate", args=("abc",)), {"notes": "x"}, headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 503 and answer.json()["sentence"].startswith(SENTENCE)
    assert "What you typed is still here" in answer.json()["sentence"]


def test_a_password_is_not_written_into_a_page(broken: Callable[[], None]) -> None:
    broken()
    answer = Client(raise_request_exception=False).post(
        "/sign-in/", "username=mate&password=hunter2", content_type=FORM, headers={"Cookie": SESSION}
    )
    text = answer.content.decode()
    assert answer.status_code == 503 and "hunter2" not in text and "Reload this page" in text


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it is about SQLite's file")
def test_a_sqlite_file_that_is_locked_is_answered_and_then_served(client: Client, make_run: Callable[..., Run]) -> None:
    url = f"/runs/{make_run(status=Status.FAILED).pk}/do/archive/"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout=300")  # instead of the 10 s that a request has for it
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    with closing(other):
        other.execute("BEGIN IMMEDIATE")
        answer = client.post(url, "from=table", content_type=FORM)
        assert (answer.status_code, answer["Retry-After"]) == (503, str(RETRY_S))
        assert client.get("/runs/").status_code == 200, "reading needs no lock"
        other.rollback()
    assert client.post(url, "from=table", content_type=FORM).status_code == 302
    connection.close()


@pytest.mark.extended
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_a_postgresql_that_is_stopped_is_answered_soon_and_served_again() -> None:
    with short_folder("ty-away-") as folder, short_folder("ty-home-") as home:
        server = start_postgresql(folder)
        if server is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        up = Up(new_home(home), DATABASE_URL=server.url).wait_until_ready()
        try:
            with httpx.Client(base_url=up.url, headers={"Authorization": f"Bearer {up.token}"}, timeout=30) as http:
                assert http.get("/api/v1/runs").status_code == 200
                server.stop()
                for method, path in (
                    ("GET", "/api/v1/runs"),
                    ("GET", "/invitations/nobody-made-it/"),
                    ("POST", "/api/v1/runs"),
                ):
                    began = time.monotonic()
                    answer = http.request(method, path, json={} if method == "POST" else None)
                    took_s = time.monotonic() - began
                    found = answer.status_code, answer.headers.get("Retry-After")
                    assert found == (503, str(RETRY_S)), (path, answer.text)
                    assert took_s < SOON_S
                server.start_again()
                wait_until(lambda: http.get("/api/v1/runs").status_code == 200, "REST answers again")
        finally:
            up.close()
            server.stop()

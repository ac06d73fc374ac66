"""What the client sends again, and for how long."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trainyard.rest import connection
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError, Unreachable

GOES_ON = (409, {"detail": "The first request is still being answered."}, {"Retry-After": "0"})
CUT_OFF: tuple[int, Any, dict[str, str]] = (0, {}, {})


class Scripted:
    """A server that gives these answers in turn, the last one for ever, and cuts connections off for status 0."""

    def __init__(self, *answers: tuple[int, Any, dict[str, str]]) -> None:
        self.answers, self.keys = list(answers), list[str | None]()
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                script.keys.append(self.headers["Idempotency-Key"])
                status, answer, headers = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
                if not status:
                    self.connection.close()
                    return
                body = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def scripts() -> Iterator[list[Scripted]]:
    made = list[Scripted]()
    yield made
    for one in made:
        one.server.shutdown()
        one.server.server_close()


def ask(scripts: list[Scripted], *answers: tuple[int, Any, dict[str, str]]) -> tuple[Scripted, dict[str, Any]]:
    scripts.append(Scripted(*answers))
    with Client(f"http://127.0.0.1:{scripts[-1].server.server_port}", "ty_any") as client:
        return scripts[-1], client.call("POST", "/things", dict[str, Any], json={})


def test_a_call_that_is_cut_off_waits_for_its_first_try_and_gets_its_answer(scripts: list[Scripted]) -> None:
    """A web that is restarted answers no more, while the server still believes that it does."""
    server, found = ask(scripts, CUT_OFF, *[GOES_ON] * 4, CUT_OFF, GOES_ON, (201, {"id": "x"}, {}))
    assert found == {"id": "x"} and len(server.keys) == 8 and len(set(server.keys)) == 1


def test_it_does_not_wait_for_ever(scripts: list[Scripted], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.5)
    with pytest.raises(ApiError, match="still being answered") as error:
        ask(scripts, GOES_ON)
    assert error.value.status == 409 and len(scripts[0].keys) > 2


def test_a_conflict_that_time_does_not_end_is_raised_at_once(scripts: list[Scripted]) -> None:
    with pytest.raises(ApiError, match="taken"):
        ask(scripts, (409, {"detail": "The name is taken."}, {}))
    assert len(scripts[0].keys) == 1


def test_a_server_that_is_away_is_asked_three_times(scripts: list[Scripted]) -> None:
    with pytest.raises(Unreachable):
        ask(scripts, CUT_OFF)
    assert len(scripts[0].keys) == 3

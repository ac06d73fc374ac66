"""Receivers of notices on this machine: a web server, and a server of e-mail that speaks SMTP."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What came, and the codes that are answered next: 200 once there is none left."""

    port: int = 0
    codes: list[int] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: Callable[[bytes, dict[str, str]], int] | None = None  # the code for a message that is no JSON

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/s3cret"


def answer_of_pagerduty(event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Answer as https://developer.pagerduty.com/docs/events-api-v2/trigger-events/ says: a routing key of zeros is
    nobody's."""
    problems = []
    if len(event.get("routing_key", "")) != 32:
        problems.append("Length of 'routing_key' is incorrect (should be 32 characters)")
    elif set(event["routing_key"]) == {"0"}:
        problems.append("Invalid routing key")
    if event.get("event_action") == "trigger":
        payload = event.get("payload", {})
        problems += [f"'payload.{name}' is missing or blank" for name in ("summary", "source") if not payload.get(name)]
        if payload.get("severity") not in ("critical", "error", "warning", "info"):
            problems.append("'payload.severity' is invalid (must be one of critical, warning, error, info)")
        if len(payload.get("summary", "")) > 1024:
            problems.append("'payload.summary' is too long (maximum is 1024 characters)")
    elif event.get("event_action") not in ("acknowledge", "resolve") or not event.get("dedup_key"):
        problems.append("'event_action' is invalid, or 'dedup_key' is missing")
    if problems:
        return 400, {"status": "invalid event", "message": "Event object is invalid", "errors": problems}
    return 202, {"status": "success", "message": "Event processed", "dedup_key": event.get("dedup_key", "made")}


@contextmanager
def web_receiver(location: str = "", *, is_pagerduty: bool = False) -> Iterator[Receiver]:
    """Run one; ``location`` is where its redirects lead. ``is_pagerduty``: it answers as the Events API v2 does."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = receiver.codes.pop(0) if receiver.codes else 200
            receiver.raw.append(body)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = b""
            if is_pagerduty and code == 200:
                code, document = answer_of_pagerduty(json.loads(body))
                answer = json.dumps(document).encode()
            if receiver.answer and code == 200:
                code = receiver.answer(body, receiver.headers[-1])
            elif code in (200, 202):
                receiver.bodies.append(json.loads(body))
            self.send_response(code)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield receiver
        server.shutdown()


@contextmanager
def mail_receiver() -> Iterator[Receiver]:
    """Run a server that takes every message but for refused@example.org."""
    receiver = Receiver()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            self.say("220 here")
            for line in self.rfile:
                word = line.strip().upper()
                if word == b"DATA":
                    self.say("354 go on")
                    receiver.raw.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                    self.say("250 taken")
                elif word == b"QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("550 nobody" if b"REFUSED@" in word else "250 ok")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield receiver
        server.shutdown()

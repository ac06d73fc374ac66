"""Messages that nobody should be able to hurt a Celery worker with."""

from __future__ import annotations

import base64
import json
from typing import Any


def message(task: Any = "celery.ping", body: Any = None, **headers: Any) -> bytes:
    """A message as kombu writes it, with whatever in it."""
    body = [[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}] if body is None else body
    text = base64.b64encode(json.dumps(body).encode()).decode()
    about = {"lang": "py", "task": task, "id": "x", "root_id": "x", "parent_id": None, "group": None, **headers}
    properties = {"delivery_info": {"exchange": "", "routing_key": "q"}, "delivery_tag": "x", "body_encoding": "base64"}
    return json.dumps(
        {"body": text, "content-type": "application/json", "content-encoding": "utf-8", "headers": about,
         "properties": properties}
    ).encode()  # fmt: skip


JUNK = [
    b"not json",
    b"",
    b"\xff\xfe\x00",
    b"5",
    b"null",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b'{"body": 5}',
    b'{"body": "%%%", "headers": 5, "properties": 7}',
    b'{"body": "", "headers": {"task": ["a"]}, "properties": {"delivery_info": 3}}',
    message(),
    message("celery.backend_cleanup"),
    message("celery.map", [[], {"task": {"task": "celery.ping"}, "it": [[1]]}, {}]),
    message("celery.chord_unlock", [["x"], {}, {}]),
    message({"a": 1}),
    message("runs.tasks.schedule", [[], {"cluster_id": "local"}, {}]),
    message("runs.tasks.schedule", [["local"], {}, {}]),
    message("runs.tasks.schedule", [[], {"sealed": "0." + "{}"}, {}]),
    message("runs.tasks.schedule", [[], {"sealed": 5}, {"chain": [{"task": "celery.ping"}]}]),
    message("workers.tasks.nudge", 7),
    message("workers.tasks.nudge", [[], {"sealed": "x"}, {}], eta="2999-01-01T00:00:00Z"),
]

"""Whoever reads along in Valkey reads no order: a run's environment may hold what is nobody else's business."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import threading
from typing import Any

import redis as redis_library

from runs.life.reconcile.desired import secret_of
from runs.serving.transport import redis
from tests.cast import spec
from tests.runs.life.reconcile.conftest import Yard
from tests.servers import Valkey
from trainyard.contract import seals

SECRET = "hf_a_token_that_nobody_else_should_see"


def test_neither_the_down_document_nor_a_command_shows_what_the_order_holds(yard: Yard, valkey: Valkey) -> None:
    task = {"recipe": "language-model", "environment": {"HF_TOKEN": SECRET}}
    type(yard.run).objects.update(spec={**spec(resources={"nodes": 2, "processes_per_node": 1}), "task": task})
    seen: list[str] = []
    with redis_library.Redis.from_url(valkey.url) as client, client.monitor() as monitor:
        thread = threading.Thread(target=lambda: seen.extend(_until_the_end(monitor)))
        thread.start()
        yard.tick()
        redis().set("the-end", 1)
        thread.join()
    text = "\n".join(seen)
    assert "workers.tasks.nudge" in text and seals.down_key(yard.voices[0].node.pk) in text
    assert SECRET not in text
    for key in redis().keys("*"):  # type: ignore[union-attr]
        if redis().type(key) == b"string":
            assert SECRET.encode() not in (redis().get(key) or b"")  # type: ignore[operator]
    order = yard.voices[0].heard()["attempts"][yard.attempt.pk]["order"]
    assert order["spec"]["task"]["environment"] == {"HF_TOKEN": SECRET}


def test_the_nodes_of_an_attempt_have_one_secret_for_its_spark(yard: Yard) -> None:
    task = {"script": "train.py", "launch": ["spark"]}
    type(yard.run).objects.update(spec={**spec(resources={"nodes": 2, "processes_per_node": 1}), "task": task})
    yard.tick()
    orders = [voice.heard()["attempts"][yard.attempt.pk]["order"] for voice in yard.voices]
    [secret] = {order["spark_secret"] for order in orders}
    assert len(secret) == 64 and secret not in (secret_of("another", "spark"), secret_of(yard.attempt.pk, "replicas"))


def _until_the_end(monitor: Any) -> list[str]:
    """Return what clients sent, with the bodies of Celery's messages opened."""
    found = []
    while "the-end" not in (command := str(monitor.next_command()["command"])):
        found.append(command)
        for body in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", command):
            with contextlib.suppress(binascii.Error):  # a long word that is no Base64
                found.append(base64.b64decode(body + "==", validate=False).decode("utf-8", "replace"))
    return found

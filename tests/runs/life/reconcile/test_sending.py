"""What a node says of its output on the way stands on the run's page, and after its last word it sends no more."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs.ingest.rounds import IngestEntry, Over, Senders
from runs.presenting.runs import run_documents
from runs.records.metrics.models import Telemetry
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import rank
from trainyard.contract import seals


def say_output(yard: Yard, number: int = 0, *, is_done: bool = False, **output: Any) -> None:
    said = {"problem": "", "num_refused": 0, "refused": {}, **output}
    yard.voices[number].listed[yard.attempt.pk] |= {"output": said, "is_done": is_done}
    yard.tick()


def finish(yard: Yard) -> None:
    yard.start()
    yard.say("ended", ranks=[rank(0, 10.0)])
    yard.tick()
    assert yard.tick() == "SUCCEEDED"


def document(yard: Yard) -> dict[str, Any]:
    yard.run.refresh_from_db()
    return run_documents([yard.run])[0]


def arrived(yard: Yard) -> tuple[str, str]:
    Telemetry.objects.update_or_create(pk=yard.run.pk, defaults={"last_record_at": yard.now})
    lamp = document(yard)["lamps"]["telemetry"]
    return lamp["colour"], lamp["sentence"]


def test_everything_has_arrived_once_every_node_has_sent_its_output(yard: Yard) -> None:
    finish(yard)
    assert arrived(yard) == ("amber", "Every record arrived; output of node-a, node-b is still on its way.")
    say_output(yard, 0, is_done=True)
    assert arrived(yard) == ("amber", "Every record arrived; output of node-b is still on its way.")
    say_output(yard, 1, is_done=True)
    assert arrived(yard) == ("green", "Everything arrived.")


def test_output_that_waits_is_said_with_the_reason_until_it_has_come(yard: Yard) -> None:
    finish(yard)
    say_output(yard, problem="The server answered 401: Unauthorized.")
    (trouble,) = document(yard)["troubles"]
    assert trouble["sentence"] == "Output of node-a waits and is tried again. The server answered 401: Unauthorized."
    client = Client()
    client.force_login(yard.cast.owner)
    page = client.get(f"/runs/{yard.run.pk}/").content.decode()
    assert "output has not arrived" in page and "The server answered 401" in page
    say_output(yard, is_done=True)
    assert document(yard)["troubles"] == []


def test_a_file_that_was_refused_stays_on_the_page_and_the_lamp_is_red(yard: Yard) -> None:
    finish(yard)
    say_output(yard, 0, is_done=True, num_refused=7, refused={"model.safetensors": "A file has at most 2 bytes."})
    say_output(yard, 1, is_done=True)
    (trouble,) = document(yard)["troubles"]
    assert trouble["sentence"] == (
        "The server refused 7 output files of node-a, which kept them: "
        "model.safetensors (A file has at most 2 bytes); and 6 more."
    )
    assert arrived(yard) == ("red", "Every record arrived, but 7 output files were refused.")


def test_what_is_still_live_is_not_done_whatever_its_node_says(yard: Yard) -> None:
    yard.start()
    say_output(yard, is_done=True)
    assert {one.done_at for one in yard.placements} == {None}


def test_records_that_come_after_the_last_one_are_dropped(yard: Yard) -> None:
    finish(yard)
    node, attempt = yard.voices[0].node, yard.attempt
    scope = seals.frames_scope(node.pk, yard.run.pk, attempt.fence)
    entry = IngestEntry(b"1-1", node.pk, yard.run.pk, attempt.pk, attempt.fence, b"", seals.mac(node.key, scope, b""))
    assert Senders().opened(entry)
    say_output(yard, is_done=True)
    with pytest.raises(Over):
        Senders().opened(entry)

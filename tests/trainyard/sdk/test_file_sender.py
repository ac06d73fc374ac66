"""Files are sent beside the points: neither a long way nor a refusal of theirs holds points and heartbeats up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.models import Run
from runs.records.files import outputs
from runs.records.metrics.models import Telemetry
from tests.trainyard.command import Trainyard
from tests.up_process import wait_until
from trainyard import init
from trainyard.rest import client
from trainyard.rest.connection import ApiError
from trainyard.sdk import local_run as local
from trainyard.sdk import sender

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINYARD_SPOOL", raising=False)
    monkeypatch.delenv(local.VARIABLE, raising=False)
    monkeypatch.setattr(local, "_own", (0, ""))
    monkeypatch.setattr(sender, "ANNOUNCE_PERIOD_S", 0.1)
    monkeypatch.chdir(tmp_path)
    Path("large.bin").write_bytes(b"0" * 4096)


class Link:
    """A slow link: it carries the first part of a file, and the rest when a test says so."""

    def __init__(self) -> None:
        self.is_busy = threading.Event()
        self.goes_on = threading.Event()


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    whole, slow = client.Content.__iter__, Link()

    def parts(self: client.Content) -> Iterator[bytes]:
        for part in whole(self):
            yield part[:100]
            slow.is_busy.set()
            assert slow.goes_on.wait(60)
            yield part[100:]

    monkeypatch.setattr(client.Content, "__iter__", parts)
    yield slow
    slow.goes_on.set()


def stored() -> int:
    return sum(Telemetry.objects.values_list("num_points", flat=True))


def paths(run: Run) -> set[str]:
    return {one["path"] for one in outputs.listing(run.pk)}


def test_points_and_heartbeats_go_on_while_a_large_file_is_on_its_way(trainyard: Trainyard, link: Link) -> None:
    run = init("live")
    try:
        run.log({"loss": 1.0})
        run.save("large.bin")
        assert link.is_busy.wait(30)
        beat = Run.objects.get().heartbeat_at
        run.log({"loss": 0.5})
        wait_until(lambda: stored() == 2, "both points are there", patience_s=30)
        wait_until(lambda: Run.objects.get().heartbeat_at != beat, "a heartbeat came", patience_s=30)
        assert Run.objects.get().status == "RUNNING" and not paths(Run.objects.get())
        link.goes_on.set()
        wait_until(lambda: paths(Run.objects.get()) == {"large.bin"}, "the file is there", patience_s=30)
    finally:
        run.finish()
    assert (Run.objects.get().status, stored()) == ("SUCCEEDED", 2)


def test_the_end_waits_for_a_file_no_longer_than_said_and_names_it(
    trainyard: Trainyard, link: Link, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender, "FINISH_TIMEOUT_S", 4.0)
    run = init("live")
    run.log({"loss": 1.0})
    run.save("large.bin")
    assert link.is_busy.wait(30)
    began = time.monotonic()
    run.finish()
    assert time.monotonic() - began < 8
    assert "not everything was sent: of its files large.bin is missing. `trainyard sync" in caplog.text
    wait_until(lambda: Run.objects.get().status == "SUCCEEDED", "its end is there", patience_s=10)
    assert (stored(), paths(Run.objects.get())) == (1, set())
    link.goes_on.set()
    assert trainyard("sync").code == 0
    assert paths(Run.objects.get()) == {"large.bin"}


def test_a_file_that_cannot_be_sent_stops_no_points(
    trainyard: Trainyard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ApiError(403, "you may not", [])

    monkeypatch.setattr(client.Client, "send_file", refuse)
    run = init("live")
    run.save("large.bin")
    run.log({"loss": 1.0})
    wait_until(lambda: "files of the run cannot be sent: you may not" in caplog.text, "it is said", patience_s=30)
    run.log({"loss": 0.5})
    wait_until(lambda: stored() == 2, "both points are there", patience_s=30)
    run.finish()
    assert "of its files large.bin is missing" in caplog.text
    assert Run.objects.get().status == "SUCCEEDED"

"""What is said when the server itself does not work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from runs.ingest.lock import ShardLock
from runs.models import Run
from runs.presenting import server_state
from runs.presenting.runs import run_document
from runs.presenting.server_state import DISK_FULL, INGEST_STILL, VALKEY_AWAY, ServerState, look
from runs.recovery.fencing import TICK_KEY
from runs.serving.transport import redis
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node
from tests.disks import disk_of_1_mb, fill
from tests.servers import Valkey

WELL = ServerState(database=True, valkey=True, ingest=True, control_tick_age_s=0.5, free_bytes=10**9)


def test_a_server_that_works_says_nothing() -> None:
    assert WELL.is_ready
    assert WELL.sentences == []


def test_each_part_that_does_not_work_is_named() -> None:
    control_away = replace(WELL, control_tick_age_s=41.0)
    assert not control_away.is_ready
    assert control_away.sentences[0].startswith("Control has not worked for 41 s:")
    assert replace(WELL, ingest=False).sentences == [INGEST_STILL]
    assert replace(WELL, valkey=False, control_tick_age_s=None, ingest=False).sentences == [VALKEY_AWAY]


def test_a_full_disk_is_the_cause_and_what_follows_is_left_out() -> None:
    full = ServerState(database=True, valkey=False, ingest=False, control_tick_age_s=None, free_bytes=0)
    assert full.sentences == [DISK_FULL]


@pytest.mark.django_db(databases="__all__")
def test_it_looks_at_the_real_servers(valkey: Valkey) -> None:
    assert not look().ingest
    redis().set(TICK_KEY, time.time())
    lock = ShardLock(0)
    assert lock.hold()
    assert look().is_ready
    lock.release()
    assert not look().ingest
    valkey.kill()
    assert look().sentences == [VALKEY_AWAY]


@pytest.mark.django_db(databases="__all__")
def test_it_looks_at_the_real_disk(tmp_path: Path) -> None:
    with disk_of_1_mb(tmp_path / "small") as disk, override_settings(HOME=disk):
        fill(disk)
        assert os.statvfs(disk).f_bavail == 0
        assert look().sentences == [DISK_FULL]


@pytest.mark.django_db(databases="__all__")
def test_every_page_shows_the_sentences(cast: Cast, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_state, "_known", (time.monotonic(), replace(WELL, free_bytes=0)))
    client.force_login(cast.mate)
    html = client.get("/").content.decode()
    assert "The server&#x27;s disk is full" in html


@pytest.mark.django_db(databases="__all__")
def test_a_control_that_is_away_does_not_make_nodes_look_away(
    cast: Cast, make_run: Callable[..., Run], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(cast.cluster, "node-a", seen_at=timezone.now() - timedelta(seconds=60))
    run = make_run(status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    attempt.placements.update(reported_at=timezone.now() - timedelta(seconds=60))
    client.force_login(cast.owner)

    monkeypatch.setattr(server_state, "_known", (time.monotonic(), replace(WELL, control_tick_age_s=60.0)))
    assert "Control has not worked for 60 s" in lamp_of(run)
    assert "out of contact" not in " ".join(client.get("/nodes/").content.decode().split())

    monkeypatch.setattr(server_state, "_known", (time.monotonic(), WELL))
    assert "Out of contact with node-a" in lamp_of(run)
    assert "out of contact" in " ".join(client.get("/nodes/").content.decode().split())


def lamp_of(run: Run) -> str:
    return run_document(Run.objects.get(pk=run.pk), None, None, timezone.now())["lamps"]["process"]["sentence"]

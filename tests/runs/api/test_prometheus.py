"""Numbers for Prometheus: what a caller sees, as its own reader takes them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from runs.models import Run, RunTime
from runs.presenting import server_state
from runs.records.time_use.split import NAMES
from runs.serving import request_counts, transport
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.runs.api.conftest import Api
from trainyard.contract.seals import stream_key

pytestmark = pytest.mark.usefixtures("valkey")


def scraped(api: Api) -> dict[str, dict[tuple[str, ...], float]]:
    answer = api("GET", "/metrics")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/openmetrics-text")
    return {
        family.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in text_string_to_metric_families(answer.text)
    }


def test_nodes_slots_queue_and_runs_are_counted(cast: Cast, mate: Api) -> None:
    node = make_node(cast.cluster, "a", slots=4)
    make_node(cast.cluster, "b", slots=2, seen_at=None)
    make_attempt(make_run(cast, status=Status.RUNNING), [node], ranks=3)
    make_run(cast)
    Run.objects.create(project=cast.project, cluster=cast.cluster, name="over", spec={}, status=Status.FAILED)
    found = scraped(mate)
    assert found["trainyard_nodes"] == {("local", "in contact"): 1, ("local", "away"): 1}
    assert found["trainyard_slots"] == {("local", "all"): 6, ("local", "held"): 3}
    assert found["trainyard_queued_runs"] == {("local", "queued"): 1}
    assert 0 <= found["trainyard_queue_longest_wait_seconds"][("local",)] < 60
    runs = found["trainyard_runs"]
    assert (runs[("QUEUED",)], runs[("RUNNING",)], runs[("PAUSED",)]) == (1, 1, 0) and ("FAILED",) not in runs
    assert found["trainyard_ready"] == {(): 0}, "control does not run here"
    assert found["trainyard_disk_free_bytes"][()] > 0 and found["trainyard_stream_entries"] == {("0",): 0}
    assert found["trainyard_ingest_lag_seconds"] == {("0",): 0} and found["trainyard_dropped_messages"] == {(): 0}
    transport.redis().hset(
        request_counts.KEY, mapping={"2xx": 4, "5xx": 1, "0.1": 3, "2.5": 1, "microseconds": 2_500_000}
    )
    found = scraped(mate)
    assert found["trainyard_requests"] == {("2xx",): 4, ("3xx",): 0, ("4xx",): 0, ("5xx",): 1}
    times = found["trainyard_request_seconds"]
    assert [times[(le,)] for le in ("0.05", "0.1", "1.0", "2.5", "+Inf")] == [0, 3, 3, 4, 4]
    transport.redis().xadd(stream_key(0), {"d": "x"}, id=f"{int((time.time() - 90) * 1000)}-0")
    assert 85 < scraped(mate)["trainyard_ingest_lag_seconds"][("0",)] < 150


def test_the_time_of_the_week_is_what_home_shows(cast: Cast, mate: Api, as_: Any, client: Client) -> None:
    found = scraped(mate)
    assert set(found["trainyard_time_seconds"].values()) == {0} and found["trainyard_goodput_ratio"] == {}
    cache.clear()
    times: dict[str, Any] = dict.fromkeys(NAMES, 0.0) | {"productive_s": 3600.0, "queued_s": 1200.0}
    for days_ago, archived_at in ((1, None), (8, None), (2, timezone.now())):
        ended = timezone.now() - timedelta(days=days_ago)
        run = make_run(cast, status=Status.SUCCEEDED, ended_at=ended, archived_at=archived_at)
        RunTime.objects.create(run=run, ended_at=ended, **times)
    found = scraped(mate)
    assert found["trainyard_goodput_ratio"] == {(): 0.75} and len(found["trainyard_time_seconds"]) == len(NAMES)
    assert [found["trainyard_time_seconds"][(use,)] for use in ("productive", "queued", "paused")] == [3600, 1200, 0]
    client.force_login(cast.mate)
    assert client.get("/").context["week"].goodput == "75 %"
    with CaptureQueriesContext(connection) as asked:
        assert scraped(mate)["trainyard_goodput_ratio"] == {(): 0.75}
    assert not [one for one in asked if "runtime" in one["sql"]], "it is kept for a minute"
    assert scraped(as_("outsider"))["trainyard_goodput_ratio"] == {}


def test_who_sees_no_cluster_gets_the_servers_own_numbers(cast: Cast, as_: Any) -> None:
    make_node(cast.cluster)
    make_run(cast)
    found = scraped(as_("outsider"))
    assert found["trainyard_nodes"] == found["trainyard_slots"] == found["trainyard_queued_runs"] == {}
    assert set(found["trainyard_runs"].values()) == {0}


def test_nobody_is_counted_for_who_is_not_known(client: Any) -> None:
    assert client.get("/api/v1/metrics").status_code == 401


def test_while_control_is_away_nodes_keep_the_state_that_it_knew_last(
    cast: Cast, mate: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_node(cast.cluster, "a", seen_at=timezone.now() - timedelta(minutes=10))
    assert scraped(mate)["trainyard_nodes"] == {("local", "away"): 1}
    monkeypatch.setattr(server_state, "_known", (time.monotonic(), state_of(600.0)))
    assert scraped(mate)["trainyard_nodes"] == {("local", "in contact"): 1}


def state_of(silence_s: float) -> server_state.ServerState:
    return server_state.ServerState(
        database=True, valkey=True, ingest=True, control_tick_age_s=silence_s, free_bytes=1 << 40
    )

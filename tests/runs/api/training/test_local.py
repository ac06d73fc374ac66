"""Runs that were logged outside of Trainyard: made once, filled by raw frames, judged by what has arrived."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.life.reconcile import tick
from runs.models import Cluster, Project, Run
from runs.presenting.listing import find_runs
from runs.records.metrics.models import DeadLetter, Telemetry
from runs.values.status import Status
from tests.cast import Cast, make_run, make_user
from tests.runs.api.conftest import Api
from tests.spools import Spool, some_points

pytestmark = pytest.mark.usefixtures("valkey")
As = Callable[[str], Api]


def said(**process: Any) -> dict[str, Any]:
    return {"rank": 0, "host": "desk", "began_at": 1000.0, **process}


def send(api: Api, local_id: str, *spools: Spool, **changes: Any) -> Any:
    """PUT the local run with these spools' processes and send their frames; return the last answer to the PUT."""
    body = {"name": "alone", "script": "/home/ada/train.py", "host": "desk", **changes}
    body.setdefault("processes", {spool.producer: said() for spool in spools})
    made = api("PUT", f"/runs/local/{local_id}", body)
    if made.status_code != 200:
        return made
    for spool in spools:
        answer = api("POST", f"/runs/{made.json()['run']['id']}/frames", spool.bytes)
        assert answer.status_code == 200, answer.content
        assert answer.json()["watermarks"] == {spool.producer: len(spool.frames)}
    return api("PUT", f"/runs/local/{local_id}", body)


def logged(rank: int = 0, *, ends: bool = True) -> Spool:
    spool = Spool()
    spool.begin(rank, role="script")
    spool.points(some_points(0, 10), rank=str(rank))
    if ends:
        spool.end()
    return spool


@pytest.fixture
def local_id() -> str:
    return uuid.uuid4().hex


def test_all_processes_ended_is_success_and_sending_again_changes_nothing(mate: Api, local_id: str) -> None:
    spools = [logged(0), logged(1)]
    first = send(mate, local_id, *spools).json()
    again = send(mate, local_id, *spools).json()
    run = again["run"]
    assert run == {**first["run"], "lamps": run["lamps"], "troubles": run["troubles"]} and Run.objects.count() == 1
    assert [trouble["code"] for trouble in run["troubles"]] == ["repeated"]
    assert run["status"] == "SUCCEEDED" and run["cluster"] is None and run["attempt"] is None
    assert run["spec"]["task"] == {"script": "train.py"} and run["spec"]["local"]["id"] == local_id
    assert again["watermarks"] == {spool.producer: 3 for spool in spools}
    assert Telemetry.objects.get(pk=run["id"]).num_points == 20
    labels = {one["labels"]["rank"] for one in mate("GET", f"/runs/{run['id']}/series").json()["items"]}
    assert labels == {"0", "1"}
    events = mate("GET", f"/runs/{run['id']}/events").json()["items"]
    assert [event["code"] for event in events] == ["sent", "finished"]
    assert {lamp["colour"] for lamp in run["lamps"].values()} == {"grey", "green"}


def test_without_an_end_it_is_lost_and_a_later_sync_completes_it(mate: Api, local_id: str) -> None:
    spools = [logged(0), logged(1, ends=False)]
    run = send(mate, local_id, *spools).json()["run"]
    assert run["status"] == "LOST" and run["ended_at"] is None
    assert "The end of 1 of its 2 processes has not arrived" in run["reason"]["sentence"]
    assert {lamp["colour"] for lamp in run["lamps"].values()} == {"grey"}, "nothing is known, so nothing is alarming"
    tick_twice()
    assert mate("GET", f"/runs/{run['id']}").json()["status"] == "LOST", "control leaves it alone"
    spools[1].end()
    over = {spool.producer: said(ended_at=1060.0) for spool in spools}
    run = send(mate, local_id, *spools, processes=over).json()["run"]
    assert run["status"] == "SUCCEEDED"
    assert (run["started_at"], run["ended_at"]) == ("1970-01-01T00:16:40Z", "1970-01-01T00:17:40Z")


def tick_twice() -> None:
    from django.utils import timezone

    tick(timezone.now())
    tick(timezone.now())


def test_a_process_that_comes_after_the_end_opens_it_again(mate: Api, local_id: str) -> None:
    first, late = logged(0), logged(1, ends=False)
    assert send(mate, local_id, first).json()["run"]["status"] == "SUCCEEDED"
    run = send(mate, local_id, first, late).json()["run"]
    assert run["status"] == "LOST" and run["ended_at"] is None


def test_an_error_is_a_failure_and_names_the_rank(mate: Api, local_id: str) -> None:
    spool, other = logged(0), logged(1, ends=False)
    told = {spool.producer: said(error="ValueError: no more coal"), other.producer: said(rank=1)}
    run = send(mate, local_id, spool, other, processes=told).json()["run"]
    assert run["status"] == "FAILED", "its launcher kills the other ranks, which write no end"
    assert run["reason"]["sentence"] == "Rank 0 on desk ended with ValueError: no more coal"
    told = {other.producer: said(rank=1)}  # from another machine, which knows nothing of that error
    assert send(mate, local_id, other, processes=told).json()["run"]["status"] == "FAILED"


def test_what_a_launcher_replaced_does_not_count(mate: Api, local_id: str) -> None:
    broken, second = logged(0), logged(0)
    told = {broken.producer: said(error="OSError: x", is_replaced=True), second.producer: said()}
    assert send(mate, local_id, broken, second, processes=told).json()["run"]["status"] == "SUCCEEDED"


def test_ctrl_c_is_no_failure(mate: Api, local_id: str) -> None:
    spool = logged()
    run = send(mate, local_id, spool, processes={spool.producer: said(is_interrupted=True)}).json()["run"]
    assert run["status"] == "CANCELLED" and run["reason"]["code"] == "interrupted"


def test_frames_behind_a_gap_are_refused_and_the_watermark_says_where_to_go_on(mate: Api, local_id: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    spool = logged()
    answer = mate("POST", f"/runs/{run_id}/frames", spool.frames[0] + spool.frames[2])
    assert answer.json()["watermarks"] == {spool.producer: 1}
    answer = mate("POST", f"/runs/{run_id}/frames", b"".join(spool.frames[1:]))
    assert answer.json()["watermarks"] == {spool.producer: 3}


def test_bad_frames_are_kept_as_dead_letters_and_the_rest_is_stored(mate: Api, local_id: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    spool = logged()
    damaged = bytearray(spool.frames[1])
    damaged[-1] ^= 1
    answer = mate("POST", f"/runs/{run_id}/frames", spool.frames[0] + bytes(damaged) + spool.frames[2] + b"torn")
    assert answer.status_code == 200 and answer.json()["watermarks"] == {spool.producer: 3}
    assert DeadLetter.objects.filter(run_id=run_id).count() == 2


def test_the_verbs_of_a_run_that_nobody_here_started(mate: Api, cast: Cast, local_id: str) -> None:
    run = send(mate, local_id, logged(ends=False)).json()["run"]
    for verb in ("stop", "restart", "clone", "archive", "pause"):
        refused = mate("POST", f"/runs/{run['id']}/{verb}")
        assert refused.status_code == 409 and refused.json()["detail"], verb
    assert "Give it up first" in mate("DELETE", f"/runs/{run['id']}").json()["detail"]
    assert mate("PATCH", f"/runs/{run['id']}", {"tags": ["desk"], "notes": "by hand"}).json()["tags"] == ["desk"]
    given_up = mate("POST", f"/runs/{run['id']}/give-up").json()
    assert given_up["status"] == "CANCELLED" and "Given up by mate" in given_up["reason"]["sentence"]
    again = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]
    assert again["reason"] == given_up["reason"], "a person's word stands until the end comes"
    refused = mate("POST", f"/runs/{run['id']}/restart")
    assert refused.status_code == 409 and "logged outside of Trainyard" in refused.json()["detail"]
    assert mate("POST", f"/runs/{run['id']}/archive").status_code == 200
    assert mate("DELETE", f"/runs/{run['id']}").status_code == 204
    assert not Telemetry.objects.filter(pk=run["id"]).exists()


def test_a_given_up_run_whose_end_comes_after_all_succeeded(mate: Api, local_id: str) -> None:
    spool = logged(ends=False)
    run_id = send(mate, local_id, spool).json()["run"]["id"]
    mate("POST", f"/runs/{run_id}/give-up")
    spool.end()
    assert send(mate, local_id, spool).json()["run"]["status"] == "SUCCEEDED"


def test_a_run_on_nodes_takes_no_frames(mate: Api, cast: Cast) -> None:
    run = make_run(cast, status=Status.RUNNING)
    refused = mate("POST", f"/runs/{run.pk}/frames", logged().bytes)
    assert refused.status_code == 409 and refused.json()["code"] == "not-local"


def test_a_request_that_is_too_large_is_refused(mate: Api, local_id: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    assert mate("POST", f"/runs/{run_id}/frames", bytes(4 * 1024 * 1024 + 1)).status_code == 413


def test_a_producer_that_reports_over_rest_is_not_taken_over(mate: Api, local_id: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    spool = logged()
    point = {"producer": spool.producer, "sequence": 1, "points": [{"name": "a", "step": 0, "value": 1.0}]}
    assert mate("POST", f"/runs/{run_id}/points", point).status_code == 200
    assert mate("POST", f"/runs/{run_id}/frames", spool.bytes).status_code == 409


def test_a_program_without_a_spool_is_live_by_its_points_and_ends_by_its_last_batch(mate: Api, local_id: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    batch = {"producer": uuid.uuid4().hex, "points": [{"name": "loss", "step": 0, "value": 1.0}]}
    assert mate("POST", f"/runs/{run_id}/points", {**batch, "sequence": 1}).status_code == 200
    assert mate("GET", f"/runs/{run_id}").json()["status"] == "RUNNING"
    again = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]
    assert again["status"] == "RUNNING"
    assert mate("POST", f"/runs/{run_id}/points", {**batch, "sequence": 2, "end": True}).status_code == 200
    assert mate("GET", f"/runs/{run_id}").json()["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("told", "status"), [({}, "SUCCEEDED"), ({"error": "exit code 3"}, "FAILED")])
def test_its_end_may_also_come_with_the_run(mate: Api, local_id: str, told: dict[str, Any], status: str) -> None:
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    batch = {"producer": uuid.uuid4().hex, "sequence": 1, "points": [{"name": "loss", "step": 0, "value": 1.0}]}
    mate("POST", f"/runs/{run_id}/points", batch)
    processes = {batch["producer"]: {"ended_at": 1060.0, **told}}
    ended = mate("PUT", f"/runs/local/{local_id}", {"name": "alone", "processes": processes}).json()["run"]
    assert ended["status"] == status, ended["reason"]
    assert mate("POST", f"/runs/{run_id}/points", batch).status_code == 200, "its answer was lost, so it comes again"
    assert mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["status"] == status


def test_an_outsider_who_sends_to_a_run_that_is_there_is_told_nothing_of_it(as_: As, cast: Cast, local_id: str) -> None:
    body = {"name": "alone"}
    run_id = as_("mate")("PUT", f"/runs/local/{local_id}", body).json()["run"]["id"]
    assert as_("viewer")("PUT", f"/runs/local/{local_id}", body).status_code == 403
    hidden = as_("outsider")("PUT", f"/runs/local/{local_id}", body)
    assert hidden.status_code == 409 and run_id not in hidden.content.decode()


def test_a_local_run_goes_to_one_project(mate: Api, cast: Cast, local_id: str) -> None:
    Project.objects.create(name="other")
    run_id = mate("PUT", f"/runs/local/{local_id}", {"name": "alone"}).json()["run"]["id"]
    assert mate("PUT", f"/runs/local/{local_id}", {"name": "alone", "project": "default"}).status_code == 200
    refused = mate("PUT", f"/runs/local/{local_id}", {"name": "alone", "project": "other"})
    assert refused.status_code == 409 and run_id in refused.json()["detail"]
    assert mate("PUT", f"/runs/local/{uuid.uuid4().hex}", {"name": "x", "project": "nowhere"}).status_code == 404


@pytest.mark.parametrize(
    ("local_id", "changes"),
    [
        ("UPPER", {}),
        ("0" * 32, {"name": "a<b"}),
        ("0" * 32, {"processes": {"short": {}}}),
        ("0" * 32, {"processes": {"0" * 32: {"rank": -2}}}),
        ("0" * 32, {"processes": {"0" * 32: {"began_at": 1e300}}}),
        ("0" * 32, {"unknown": 1}),
    ],
)
def test_what_is_said_wrongly_is_refused(mate: Api, local_id: str, changes: dict[str, Any]) -> None:
    refused = mate("PUT", f"/runs/local/{local_id}", {"name": "alone", **changes})
    assert refused.status_code == 422 and refused.json()["errors"]
    assert Run.objects.count() == 0


def test_a_script_describes_its_run_and_what_it_does_not_name_stays(mate: Api, cast: Cast, local_id: str) -> None:
    first = {"config": {"lr": 0.01, "model": {"width": 64}}, "tags": ["a", "a", ""], "notes": "one", "group": "g"}
    send(mate, local_id, **first)
    run = send(mate, local_id, config={"lr": 0.02, "seed": 1}, job_type="eval").json()["run"]
    assert run["config"] == {"lr": 0.02, "seed": 1, "model": {"width": 64}}
    assert (run["tags"], run["notes"]) == (["a"], "one")
    assert (run["spec"]["local"]["group"], run["spec"]["local"]["job_type"]) == ("g", "eval")
    for text in ("config.lr = 0.02", "config.model.width > 63", "local.group = g"):
        assert [one.pk for one in find_runs(cast.mate, fitting=text)] == [run["id"]], text
    assert mate("GET", f"/runs/{run['id']}").json()["config"]["seed"] == 1


@pytest.mark.parametrize("config", [{"a": "x" * 1_100_000}, {"a": "\0"}, {"a": "\ud800"}])
def test_a_configuration_that_cannot_be_kept_is_refused_and_the_old_one_stays(
    mate: Api, local_id: str, config: dict[str, Any]
) -> None:
    answer = send(mate, local_id, config=config)
    assert answer.status_code == 422 and answer.json()["errors"][0]["path"].endswith("config"), answer.content
    assert not Run.objects.exists()
    send(mate, local_id, config={"half": "x" * 600_000})
    assert send(mate, local_id, config={"other": "x" * 600_000}).status_code == 422
    assert list(Run.objects.get().config) == ["half"]


def test_a_cluster_can_be_deleted_whatever_was_logged_elsewhere(mate: Api, cast: Cast, local_id: str) -> None:
    send(mate, local_id, logged())
    cast.cluster.delete()
    assert Cluster.objects.count() == 0 and Run.objects.count() == 1
    assert make_user("new").pk and mate("GET", "/runs").json()["items"][0]["cluster"] is None


def heard_at(at: datetime) -> None:
    Run.objects.update(heartbeat_at=at)


def watched_for(seconds: float) -> datetime:
    """Let control be at it for so long without a pause; return its time."""
    now = timezone.now()
    second = timedelta(seconds=1)
    for ago in range(int(seconds), -1, -1):
        tick(now - ago * second)
    return now


def test_while_heartbeats_come_it_is_running_and_its_end_ends_it(mate: Api, local_id: str) -> None:
    spool = logged(ends=False)
    run = send(mate, local_id, spool, is_live=True).json()["run"]
    assert run["status"] == "RUNNING" and "runs outside of Trainyard" in run["reason"]["sentence"]
    lamp = run["lamps"]["telemetry"]
    assert lamp["colour"] == "green" and "elsewhere" in lamp["sentence"]
    assert send(mate, local_id, spool).json()["run"]["status"] == "RUNNING", "a sync beside it knows no better"
    spool.end()
    assert send(mate, local_id, spool).json()["run"]["status"] == "SUCCEEDED"


def test_before_anything_was_logged_a_heartbeat_is_enough(mate: Api, local_id: str) -> None:
    run = send(mate, local_id, is_live=True).json()["run"]
    assert run["status"] == "RUNNING" and run["lamps"]["telemetry"]["colour"] == "green"


def test_silence_makes_it_lost_since_then_and_a_heartbeat_brings_it_back(mate: Api, local_id: str) -> None:
    spool = logged(ends=False)
    send(mate, local_id, spool, is_live=True)
    now = watched_for(40)
    assert Run.objects.get().status == "RUNNING"
    heard_at(now - timedelta(seconds=29))
    tick(now)
    assert Run.objects.get().status == "RUNNING"
    heard_at(now - timedelta(seconds=31))
    tick(now)
    run = Run.objects.get()
    assert (run.status, run.reason_code) == ("LOST", "no-heartbeat")
    assert f"since {now - timedelta(seconds=31):%Y-%m-%d %H:%M:%S} UTC" in run.reason_sentence
    assert send(mate, local_id, spool, is_live=True).json()["run"]["status"] == "RUNNING"
    events = mate("GET", f"/runs/{run.pk}/events").json()["items"]
    assert [event["code"] for event in events] == ["sent", "live", "no-heartbeat", "live"]


def test_silence_while_control_was_away_says_nothing(mate: Api, local_id: str) -> None:
    send(mate, local_id, logged(ends=False), is_live=True)
    now = timezone.now()
    heard_at(now - timedelta(seconds=300))
    tick(now)
    assert Run.objects.get().status == "RUNNING"


def test_what_a_person_gave_up_stays_so_while_heartbeats_come(mate: Api, local_id: str) -> None:
    spool = logged(ends=False)
    run = send(mate, local_id, spool, is_live=True).json()["run"]
    assert mate("POST", f"/runs/{run['id']}/give-up").status_code == 200
    assert send(mate, local_id, spool, is_live=True).json()["run"]["status"] == "CANCELLED"

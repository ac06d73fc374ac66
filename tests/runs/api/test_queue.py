"""The queue of a cluster, the limits of projects, and the use of slots over REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.life.reconcile.placing import predict_starts
from runs.models import Cluster, Event, Project, Run
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.usefixtures("valkey")
NO_LIMITS = {"slots": None, "guaranteed_slots": 0, "weight": 1.0, "slot_hours_month": None, "max_priority": 100}


@pytest.fixture
def owner(as_: Any) -> Api:
    return as_("owner")


@pytest.fixture
def viewer(as_: Any) -> Api:
    return as_("viewer")


@pytest.fixture
def outsider(as_: Any) -> Api:
    return as_("outsider")


@pytest.fixture
def administrator(cast: Cast, as_: Any) -> Api:
    type(cast.owner).objects.filter(pk=cast.owner.pk).update(is_superuser=True)
    return as_("owner")


def waiting(cast: Cast, name: str, **changes: Any) -> Run:
    """A run that asks for one slot of one node."""
    return make_run(cast, name=name, num_nodes=1, slots_per_node=1, accelerator="auto", **changes)


def alike(cast: Cast, seconds: float, number: int = 3) -> None:
    """Runs of the name "net" that took so long, each with an attempt."""
    for _ in range(number):
        run = waiting(cast, "net", status=Status.SUCCEEDED)
        end = timezone.now() - timedelta(minutes=1)
        Run.objects.filter(pk=run.pk).update(started_at=end - timedelta(seconds=seconds), ended_at=end, fence=1)


def test_the_queue_has_its_order_reasons_and_predicted_starts(cast: Cast, mate: Api) -> None:
    alike(cast, 600.0)
    make_node(cast.cluster, slots=1)
    first, second, third = (waiting(cast, "net") for _ in range(3))
    schedule(cast.cluster.pk, timezone.now())
    assert Run.objects.get(pk=first.pk).status == Status.SCHEDULED
    predict_starts(cast.cluster.pk, now := timezone.now())
    items = mate("GET", "/clusters/local/queue").json()["items"]
    assert [(one["run"], one["place"], one["project"], one["priority"]) for one in items] == [
        (second.pk, 1, "default", 50), (third.pk, 2, "default", 50),
    ]  # fmt: skip
    assert items[0]["reason"].startswith("Waiting for 1 more CPU slot on cluster local")
    for one, seconds in zip(items, (600, 1200), strict=True):
        times = {key: datetime.fromisoformat(value) for key, value in one["predicted_start"].items()}
        assert times["low"] <= times["at"] <= times["high"]
        assert abs((times["at"] - now).total_seconds() - seconds) < 5


def test_of_runs_that_nobody_can_tell_the_length_of_nobody_says_when_the_next_starts(cast: Cast, mate: Api) -> None:
    make_node(cast.cluster, slots=1)
    waiting(cast, "new", spec=spec(task={"script": "train.py"}))
    waiting(cast, "new", spec=spec(task={"script": "train.py"}))
    schedule(cast.cluster.pk, timezone.now())
    predict_starts(cast.cluster.pk, timezone.now())
    (one,) = mate("GET", "/clusters/local/queue").json()["items"]
    assert one["predicted_start"] is None


def test_runs_of_others_are_counted_and_not_shown(cast: Cast, mate: Api) -> None:
    hidden = Project.objects.create(name="hidden")
    cast.cluster.projects.add(hidden)
    Cluster.objects.filter(pk=cast.cluster.pk).update(scheduling="first-come")
    waiting(cast, "theirs", project=hidden)
    own = waiting(cast, "own")
    items = mate("GET", "/clusters/local/queue").json()["items"]
    assert [(one["run"], one["place"]) for one in items] == [(own.pk, 2)]


def test_whoever_manages_a_cluster_saves_its_queue(cast: Cast, owner: Api, mate: Api, outsider: Api) -> None:
    Project.objects.create(name="hidden", slots=3)
    make_node(cast.cluster, "node-a", slots=1)
    run = waiting(cast, "secret-name")
    answer = owner("GET", "/clusters/local/queue/saved")
    found = answer.json()
    assert answer.status_code == 200 and [one["run"] for one in found["round"]["queue"]] == [run.pk]
    assert found["round"]["rooms"][0]["name"] == "node-a" and "secret-name" not in answer.text
    assert mate("GET", "/clusters/local/queue/saved").status_code == 403
    assert outsider("GET", "/clusters/local/queue/saved").status_code == 404


def test_a_priority_moves_a_run_and_is_told(cast: Cast, mate: Api, viewer: Api) -> None:
    waiting(cast, "first")
    second = waiting(cast, "second")
    assert mate("PATCH", f"/runs/{second.pk}", {"priority": 60}).status_code == 200
    assert mate("GET", "/clusters/local/queue").json()["items"][0]["run"] == second.pk
    assert Event.objects.get(run=second, code="priority").sentence == "mate gave it the priority 60."
    assert mate("PATCH", f"/runs/{second.pk}", {"priority": "low"}).status_code == 200
    assert Run.objects.get(pk=second.pk).priority == 25
    for bad in (101, -1, "urgent", 1.5, True):
        assert mate("PATCH", f"/runs/{second.pk}", {"priority": bad}).status_code == 422, bad
    assert viewer("PATCH", f"/runs/{second.pk}", {"priority": 60}).status_code == 403


def test_a_member_has_no_higher_priority_than_the_project_allows(cast: Cast, mate: Api, owner: Api) -> None:
    Project.objects.update(max_priority=60)
    run = waiting(cast, "own")
    answer = mate("PATCH", f"/runs/{run.pk}", {"priority": 61})
    words = "61 is higher than 60, the highest that members of project default have."
    assert answer.status_code == 422 and words in answer.text
    assert owner("PATCH", f"/runs/{run.pk}", {"priority": 61}).status_code == 200
    make_node(cast.cluster)
    answer = mate("POST", "/runs", spec(priority="high"))
    assert answer.status_code == 422 and "75 is higher than 60" in answer.text
    assert mate("POST", "/runs", spec(priority=60)).status_code == 201


def test_a_run_that_is_over_has_no_place(cast: Cast, mate: Api) -> None:
    run = make_run(cast, status=Status.SUCCEEDED)
    assert mate("PATCH", f"/runs/{run.pk}", {"priority": 60}).status_code == 409


def test_limits_are_given_by_administrators_alone(cast: Cast, administrator: Api, mate: Api) -> None:
    limits = {"slots": 4, "guaranteed_slots": 2, "weight": 2.5, "slot_hours_month": 100.0, "max_priority": 70}
    assert mate("PUT", "/projects/default/limits", limits).status_code in (403, 404)
    answer = administrator("PUT", "/projects/default/limits", limits)
    assert answer.status_code == 200 and limits.items() <= answer.json().items(), answer.text
    assert limits.items() <= mate("GET", "/projects/default/limits").json().items()
    assert NO_LIMITS.items() <= administrator("PUT", "/projects/default/limits", {}).json().items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", 0), ("weight", 1e9), ("slots", -1), ("guaranteed_slots", -1), ("guaranteed_slots", 5),
        ("slot_hours_month", -0.5), ("max_priority", 101), ("max_priority", -1),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_named(cast: Cast, administrator: Api, name: str, value: float) -> None:
    answer = administrator("PUT", "/projects/default/limits", {"slots": 4, name: value})
    assert answer.status_code == 422 and name in answer.text, answer.text


def test_four_fifths_of_a_limit_are_told(cast: Cast, administrator: Api, mate: Api) -> None:
    node = make_node(cast.cluster, slots=4)
    make_attempt(make_run(cast, status=Status.RUNNING), [node], ranks=4)
    administrator("PUT", "/projects/default/limits", {"slots": 5})
    found = mate("GET", "/projects/default/limits").json()
    assert (found["held_slots"], found["sentence"]) == (4.0, "Project default holds 4 of the 5 slots that it may.")
    assert administrator("PUT", "/projects/default/limits", {"slots": 6}).json()["sentence"] == ""


def test_the_use_of_slots_is_summed_over_what_one_sees(cast: Cast, mate: Api, outsider: Api) -> None:
    node = make_node(cast.cluster, slots=2)
    attempt = make_attempt(make_run(cast, status=Status.RUNNING), [node], ranks=2)
    now = timezone.now()
    type(attempt).objects.filter(pk=attempt.pk).update(created_at=now - timedelta(hours=2))
    answer = mate("GET", "/usage?by=person")
    assert answer.status_code == 200, answer.text
    (one,) = answer.json()["items"]
    assert one["name"] == "mate" and abs(one["slot_seconds"] - 4 * 3600) < 30
    assert one["cost"] is None and one["energy_is"] == "estimated"
    Cluster.objects.update(slot_hour_price=1.5)
    (one,) = mate("GET", "/usage?by=cluster").json()["items"]
    assert one["name"] == "local" and abs(one["cost"] - 6.0) < 0.05
    half = (now - timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    (one,) = mate("GET", f"/usage?from={half}").json()["items"]
    assert one["name"] == "default" and abs(one["slot_seconds"] - 2 * 3600) < 30
    assert outsider("GET", "/usage").json()["items"] == []
    assert mate("GET", f"/usage?from={half}&to={half}").status_code == 422


def test_the_use_of_slots_is_cut_at_mondays_in_utc(cast: Cast, mate: Api) -> None:
    attempt = make_attempt(make_run(cast, status=Status.SUCCEEDED), [make_node(cast.cluster, slots=2)], ranks=2)
    sunday = datetime(2025, 12, 28, 23, tzinfo=UTC)  # the next day begins the first week of 2026
    type(attempt).objects.filter(pk=attempt.pk).update(created_at=sunday, ended_at=sunday + timedelta(days=8, hours=3))
    period = "from=2025-12-01T00:00:00Z&to=2026-01-31T00:00:00Z"
    items = mate("GET", f"/usage?{period}&by=week").json()["items"]
    hours = [(one["name"], one["slot_seconds"] / 3600) for one in items]
    assert hours == [("2026-W02", 2 * 26.0), ("2026-W01", 2 * 7 * 24.0), ("2025-W52", 2 * 1.0)]
    (one,) = mate("GET", f"/usage?{period}").json()["items"]
    assert one["slot_seconds"] == sum(part["slot_seconds"] for part in items)
    assert one["energy_joules"] == pytest.approx(sum(part["energy_joules"] for part in items))
    (one,) = mate("GET", "/usage?from=2026-01-05T01:00:00Z&to=2026-01-05T02:00:00Z&by=week").json()["items"]
    assert (one["name"], one["slot_seconds"]) == ("2026-W02", 2 * 3600.0)
    assert mate("GET", "/usage?by=month").status_code == 422


def test_a_cluster_has_a_half_life_and_a_price(cast: Cast, owner: Api) -> None:
    made = owner("POST", "/clusters", {"name": "new", "half_life_days": 14, "slot_hour_price": 2.5}).json()
    assert (made["half_life_days"], made["slot_hour_price"]) == (14, 2.5)
    assert owner("PATCH", "/clusters/new", {"region": "eu"}).json()["slot_hour_price"] == 2.5
    assert owner("PATCH", "/clusters/new", {"slot_hour_price": -1}).json()["slot_hour_price"] is None
    for name, value in (("half_life_days", 0), ("half_life_days", 1e9), ("slot_hour_price", 1e9)):
        answer = owner("PATCH", "/clusters/new", {name: value})
        assert answer.status_code == 422 and name in answer.text


def test_the_energy_of_a_node_with_gpus_is_estimated_as_theirs(cast: Cast, mate: Api) -> None:
    node = make_node(cast.cluster, slots=1, inventory={"gpus": [{"index": 0, "name": "A100"}]})
    attempt = make_attempt(make_run(cast, status=Status.RUNNING), [node])
    type(attempt).objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(hours=1))
    (one,) = mate("GET", "/usage").json()["items"]
    assert one["energy_is"] == "estimated" and abs(one["energy_joules"] - 400 * 3600) < 400 * 30

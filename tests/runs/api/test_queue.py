"""The queue of a cluster, the limits of projects, and the use of slots over REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.life.reconcile.placing import predict_starts
from runs.models import Attempt, Cluster, Event, Project, Run
from runs.placing.queue import outcomes_of
from runs.placing.usage import standings_of
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.usefixtures("valkey")
NO_LIMITS = {
    "slots": None, "guaranteed_slots": 0, "weight": 1.0, "slot_hours_month": None, "max_priority": 100,
    "runs_at_once": None, "slots_per_person": None, "budget_month": None, "max_run_hours": None,
    "share_group": "", "group_weight": None,
}  # fmt: skip


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


def test_a_band_follows_from_what_came_of_earlier_predictions(cast: Cast) -> None:
    alike(cast, 600.0)
    make_node(cast.cluster, slots=1)
    _, told = waiting(cast, "net"), waiting(cast, "net")
    schedule(cast.cluster.pk, timezone.now())
    predict_starts(cast.cluster.pk, now := timezone.now())
    told.refresh_from_db()
    assert (first := told.start_prediction) is not None and first.first is not None
    assert abs(first.first.played_s - 600) < 5 and first.first.at == first.at
    for place in range(20):  # each was told 100 to 200 s, and started after 150 to 530
        one = waiting(cast, "other", status=Status.SUCCEEDED)
        attempt = Attempt.objects.create(run=one, number=1, fence=one.next_fence(), world_size=1)
        made_at = attempt.created_at.timestamp() - 150 - 20 * place
        document = {"made_at": made_at, "at": made_at + 150, "low": made_at + 100, "high": made_at + 200}
        first_told = {**document, "played_s": 150.0}
        Run.objects.filter(pk=one.pk).update(predicted_start={**document, "first": first_told})
    paused = waiting(cast, "paused")  # it began before it was ever predicted, and waits again
    before = Attempt.objects.create(run=paused, number=1, fence=paused.next_fence(), world_size=1).created_at
    times = {name: before.timestamp() + 60 for name in ("made_at", "at", "low", "high")}
    Run.objects.filter(pk=paused.pk).update(
        status=Status.PAUSED, predicted_start={**times, "first": {**times, "played_s": 9.0}}
    )
    cache.delete(f"predicted-starts:{cast.cluster.pk}")
    predict_starts(cast.cluster.pk, now)
    told.refresh_from_db()
    assert (later := told.start_prediction) is not None
    assert later.first == first.first, "what it was told first is kept"
    assert 1_900 < later.high - now.timestamp() < 2_200, "600 s, of which the worst was 530 / 150"
    assert [
        sum(one) for one in zip(*((one.is_near, one.is_inside) for one in outcomes_of(cast.cluster)), strict=True)
    ] == [4, 3]


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
    limits = {
        "slots": 4, "guaranteed_slots": 2, "weight": 2.5, "slot_hours_month": 100.0, "max_priority": 70,
        "runs_at_once": 3, "slots_per_person": 2, "budget_month": 99.5, "max_run_hours": 12.0, "share_group": "lab",
        "group_weight": 3.0,
    }  # fmt: skip
    assert mate("PUT", "/projects/default/limits", limits).status_code in (403, 404)
    answer = administrator("PUT", "/projects/default/limits", limits)
    assert answer.status_code == 200 and limits.items() <= answer.json().items(), answer.text
    assert limits.items() <= mate("GET", "/projects/default/limits").json().items()
    assert NO_LIMITS.items() <= administrator("PUT", "/projects/default/limits", {}).json().items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", 0), ("weight", 1e9), ("slots", -1), ("guaranteed_slots", -1), ("guaranteed_slots", 5),
        ("slot_hours_month", -0.5), ("max_priority", 101), ("max_priority", -1), ("runs_at_once", -1),
        ("share_group", "the lab"), ("share_group", "<b>"), ("share_group", "x" * 61), ("group_weight", 0),
        ("group_weight", 2.0), ("slots_per_person", 10**400), ("budget_month", -0.01), ("max_run_hours", 0),
        ("max_run_hours", 8761),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_named(cast: Cast, administrator: Api, name: str, value: float | str) -> None:
    answer = administrator("PUT", "/projects/default/limits", {"slots": 4, name: value})
    assert answer.status_code == 422 and name in answer.text, answer.text
    shown = f"{value:g}" if isinstance(value, float) else str(value)[:20]
    assert shown in answer.json()["errors"][0]["message"]


def test_a_group_has_one_weight_whichever_project_gave_it(cast: Cast, administrator: Api) -> None:
    def limits(project: str, **given: Any) -> Any:
        return administrator("PUT", f"/projects/{project}/limits", given).json()["group_weight"]

    Project.objects.create(name="other")
    assert limits("default", share_group="lab") == 1.0
    assert limits("other", share_group="lab", group_weight=3) == 3.0
    assert limits("default", share_group="lab", slots=4) == 3.0
    assert limits("other", share_group="new") == 1.0
    assert dict(Project.objects.values_list("name", "group_weight")) == {"default": 3.0, "other": 1.0}
    assert limits("other") is None
    standings = standings_of(cast.cluster, timezone.now(), reads_used=False)
    assert (standings["default"].group, standings["default"].group_weight) == ("lab", 3.0)


def test_four_fifths_of_a_limit_are_told(cast: Cast, administrator: Api, mate: Api) -> None:
    node = make_node(cast.cluster, slots=4)
    make_attempt(make_run(cast, status=Status.RUNNING), [node], ranks=4)
    administrator("PUT", "/projects/default/limits", {"slots": 5})
    found = mate("GET", "/projects/default/limits").json()
    assert (found["held_slots"], found["sentence"]) == (4.0, "Project default holds 4 of the 5 slots that it may.")
    assert administrator("PUT", "/projects/default/limits", {"slots": 6}).json()["sentence"] == ""


def test_a_run_has_a_time_that_its_project_allows(cast: Cast, administrator: Api, mate: Api) -> None:
    make_node(cast.cluster)
    long = mate("POST", "/runs", spec(limits={"time": "13h"})).json()["id"]
    administrator("PUT", "/projects/default/limits", {"max_run_hours": 12})
    for limits, words in (
        ({}, "must be set: a run of project default may take 12 h"),
        ({"time": "13h"}, "13 h is too long: a run of project default may take 12 h"),
    ):
        answer = mate("POST", "/runs", spec(limits=limits))
        assert answer.status_code == 422, answer.text
        assert {"path": "limits.time", "message": words} in answer.json()["errors"]
    assert mate("POST", "/runs", spec(limits={"time": "12h"})).status_code == 201
    Run.objects.filter(pk=long).update(status=Status.CANCELLED)
    answer = mate("POST", f"/runs/{long}/restart")
    assert answer.status_code == 409 and "limits.time 13 h is too long" in answer.text


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
    assert owner("PATCH", "/clusters/new", {"spared_minutes": 10.5}).json()["spared_minutes"] == 10.5
    for name, value in (
        ("half_life_days", 0), ("half_life_days", 1e9), ("slot_hour_price", 1e9), ("spared_minutes", -1),
        ("spared_minutes", 10_081),
    ):  # fmt: skip
        answer = owner("PATCH", "/clusters/new", {name: value})
        assert answer.status_code == 422 and name in answer.text


def test_a_cluster_says_what_follows_for_runs_that_idle(cast: Cast, owner: Api) -> None:
    made = owner("POST", "/clusters", {"name": "new", "idle_action": "stop", "idle_minutes": 90}).json()
    assert [made[name] for name in ("idle_action", "idle_below", "idle_minutes")] == ["stop", 5.0, 90.0]
    assert owner("PATCH", "/clusters/new", {"idle_below": 12.5}).json()["idle_action"] == "stop"
    for name, value, words in (
        ("idle_action", "kill", "'kill' is none of off, mark, stop."),
        ("idle_below", 0, "It is 0.01 to 100 percent, not 0."),
        ("idle_below", 101, "It is 0.01 to 100 percent, not 101."),
        ("idle_minutes", 0.1, "It is 0.2 to 1,440 minutes, not 0.1."),
        ("idle_minutes", 1441, "It is 0.2 to 1,440 minutes, not 1441."),
    ):
        answer = owner("PATCH", "/clusters/new", {name: value})
        assert answer.status_code == 422 and name in answer.text and words in answer.text, (name, answer.text)


def test_the_energy_of_a_node_with_gpus_is_estimated_as_theirs(cast: Cast, mate: Api) -> None:
    node = make_node(cast.cluster, slots=1, inventory={"gpus": [{"index": 0, "name": "A100"}]})
    attempt = make_attempt(make_run(cast, status=Status.RUNNING), [node])
    type(attempt).objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(hours=1))
    (one,) = mate("GET", "/usage").json()["items"]
    assert one["energy_is"] == "estimated" and abs(one["energy_joules"] - 400 * 3600) < 400 * 30


def test_a_cluster_has_a_topology(cast: Cast, owner: Api) -> None:
    made = owner("POST", "/clusters", {"name": "racks", "topology": ["switch", "rack"]}).json()
    assert made["topology"] == ["switch", "rack"]
    path = f"/clusters/{made['id']}"
    assert owner("PATCH", path, {"region": "eu"}).json()["topology"] == ["switch", "rack"]
    for bad in (["rack", "rack"], ["<b>"], [""], ["a", "b", "c", "d", "e", "f"]):
        answer = owner("PATCH", path, {"topology": bad})
        assert answer.status_code == 422 and "topology" in answer.content.decode(), bad
    assert owner("PATCH", path, {"topology": []}).json()["topology"] == []


def test_a_run_that_asks_for_one_place_is_refused_where_the_cluster_has_no_such_level(cast: Cast, mate: Api) -> None:
    near = spec(resources={"nodes": 2, "within": "rack"})
    for levels, words in (([], "its levels are none"), (["switch", "pod"], "its levels are switch, pod")):
        type(cast.cluster).objects.update(topology=levels)
        answer = mate("POST", "/runs", near)
        assert answer.status_code == 422 and "resources.within" in answer.text
        assert f'\\"rack\\" is no level of cluster local: {words}' in answer.text, answer.text
    type(cast.cluster).objects.update(topology=["switch", "rack"])
    make_node(cast.cluster), make_node(cast.cluster)
    assert mate("POST", "/runs", near).status_code == 201


def test_what_a_node_keeps_for_projects_is_shown_to_nobody(cast: Cast, owner: Api) -> None:
    node = make_node(cast.cluster, inventory={"labels": {"rack": "r7"}, "kept": {"secret-project/0123": 1}})
    answer = owner("GET", f"/nodes/{node.pk}")
    assert answer.json()["inventory"] == {"labels": {"rack": "r7"}} and "secret-project" not in answer.content.decode()

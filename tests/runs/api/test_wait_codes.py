"""Codes of why runs wait: each kind of wait has its own, which REST answers and /metrics counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.models import Cluster, Dependency, Preflight, Project, Run, StartTerms, Sweep, Trial
from runs.values.status import Status, WaitCode
from tests.cast import Cast, make_attempt, make_node, make_run, make_sweep, spec
from tests.runs.api.conftest import Api
from tests.runs.api.test_prometheus import scraped
from trainyard.contract.statuses import SweepStatus, TrialState

pytestmark = pytest.mark.usefixtures("valkey")
NOW = timezone.now


class Scene:
    """Clusters of the cast, on each of which runs wait for one reason."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._names = (f"yard-{number}" for number in count())

    def cluster(self, *projects: Project, **values: Any) -> Cluster:
        made = Cluster.objects.create(name=next(self._names), **values)
        made.projects.add(self.cast.project, *projects)
        return made

    def run(self, cluster: Cluster, nodes: int = 1, slots: int = 1, **values: Any) -> Run:
        size = {"num_nodes": nodes, "slots_per_node": slots, "accelerator": "auto"}
        return make_run(self.cast, cluster=cluster, **{**size, **values})

    def project(self, **limits: Any) -> Project:
        return Project.objects.create(name=next(self._names), **limits)

    def taken(self) -> Cluster:
        """A cluster whose one node is held by a run."""
        cluster = self.cluster()
        make_attempt(self.run(cluster, status=Status.RUNNING), [make_node(cluster, slots=1)])
        return cluster


def of_time(scene: Scene) -> Iterator[Run]:
    run = scene.run(scene.cluster())
    StartTerms.objects.create(run=run, not_before=NOW() + timedelta(hours=1))
    yield run


def of_run(scene: Scene) -> Iterator[Run]:
    run, other = scene.run(scene.cluster()), make_run(scene.cast, status=Status.RUNNING)
    Dependency.objects.create(run=run, other=other, name=other.name, must_succeed=True)
    yield run


def of_array(scene: Scene) -> Iterator[Run]:
    cluster = scene.taken()
    first, second, third = (scene.run(cluster) for _ in range(3))
    for run in (first, second, third):
        StartTerms.objects.create(run=run, array="array", at_once=1)
    yield from (second, third)


def of_sweep(scene: Scene) -> Iterator[Run]:
    cluster = scene.cluster()
    sweep = make_sweep(scene.cast, budget={"trials": 4, "ahead": 2}, sampler={"name": "random"})
    Sweep.objects.filter(pk=sweep.pk).update(cluster=cluster, status=SweepStatus.PAUSED)
    for number in (1, 2):
        run = scene.run(cluster)
        Trial.objects.create(sweep=sweep, number=number, state=TrialState.RUNNING, parameters={}, run=run)
        yield run


def of_project(scene: Scene) -> Iterator[Run]:
    yield scene.run(scene.cluster(), project=scene.project())


def of_region(scene: Scene) -> Iterator[Run]:
    pinned = scene.project(regions="eu")
    yield scene.run(scene.cluster(pinned, region="us"), project=pinned)


def of_quota(scene: Scene) -> Iterator[Run]:
    small, spent = scene.project(slots=1), scene.project(slot_hours_month=0.0)
    cluster = scene.cluster(small, spent)
    make_node(cluster, slots=4)
    yield scene.run(cluster, slots=2, project=small)
    yield scene.run(cluster, project=spent)


def of_budget(scene: Scene) -> Iterator[Run]:
    poor = scene.project(budget_month=0.0)
    yield scene.run(scene.cluster(poor, slot_hour_price=1.0), project=poor)


def of_no_node(scene: Scene) -> Iterator[Run]:
    yield scene.run(scene.cluster())
    cluster = scene.cluster()
    make_node(cluster, slots=1)
    yield scene.run(cluster, slots=2)


def of_nodes_left_out(scene: Scene) -> Iterator[Run]:
    cluster = scene.cluster()
    folder = {"path": "/home/ty", "free_bytes": 0, "total_bytes": 100 << 30}
    make_node(cluster, self_check={"at": NOW().timestamp(), "home": folder, "checkpoints": folder})
    yield scene.run(cluster)


def of_unusable(scene: Scene) -> Iterator[Run]:
    for changes in ({"is_draining": True}, {"seen_at": None}):
        cluster = scene.cluster()
        make_node(cluster, **changes)
        yield scene.run(cluster)


def of_slots(scene: Scene) -> Iterator[Run]:
    yield scene.run(scene.taken())


def of_behind(scene: Scene) -> Iterator[Run]:
    cluster = scene.taken()
    make_node(cluster, slots=1)
    scene.run(cluster, nodes=2)
    yield scene.run(cluster)


def of_checks(scene: Scene) -> Iterator[Run]:
    cluster = scene.cluster()
    folder = {"path": "/home/ty", "free_bytes": 50 << 30, "total_bytes": 100 << 30}
    make_node(cluster, self_check={"at": NOW().timestamp(), "home": folder, "checkpoints": folder})
    yield scene.run(cluster, spec=spec(preflight="always"))
    assert Preflight.objects.filter(cluster=cluster).count() == 0, "asked for by the round"


CASES: dict[WaitCode, Callable[[Scene], Iterator[Run]]] = {
    WaitCode.TIME: of_time, WaitCode.RUN: of_run, WaitCode.ARRAY: of_array, WaitCode.SWEEP: of_sweep,
    WaitCode.NOT_ALLOWED: of_project, WaitCode.REGION: of_region, WaitCode.QUOTA: of_quota,
    WaitCode.BUDGET: of_budget, WaitCode.NO_NODE: of_no_node, WaitCode.LEFT_OUT: of_nodes_left_out,
    WaitCode.UNUSABLE: of_unusable, WaitCode.SLOTS: of_slots, WaitCode.BEHIND: of_behind, WaitCode.CHECKS: of_checks,
}  # fmt: skip


def counted(api: Api) -> Counter[str]:
    """Return the waiting runs by reason, over all clusters."""
    found = Counter[str]()
    for (_, reason), number in scraped(api)["trainyard_queued_runs"].items():
        found[reason] += int(number)
    return found


@pytest.mark.parametrize("code", CASES)
def test_each_reason_to_wait_has_its_code_and_is_counted_by_it(cast: Cast, mate: Api, code: WaitCode) -> None:
    runs = list(CASES[code](Scene(cast)))
    assert set(counted(mate)) == {"queued"}, "before control has looked at any"
    for cluster in Cluster.objects.all():
        schedule(cluster.pk, NOW())
    found = dict(Run.objects.filter(status=Status.QUEUED).values_list("pk", "reason_code"))
    assert {run.pk for run in runs} == {pk for pk, own in found.items() if own == code}, found
    assert counted(mate) == Counter(found.values())
    seen = mate("GET", f"/runs/{runs[0].pk}")
    if seen.status_code != 404:  # of a project that the caller is in
        assert seen.json()["reason"]["code"] == code and seen.json()["reason"]["sentence"]


def test_every_code_is_tried_but_that_of_runs_which_recover() -> None:
    assert CASES.keys() == set(WaitCode) - {WaitCode.CLEANUP}


def test_a_run_that_recovers_waits_for_its_nodes_to_be_clean_and_is_not_counted_as_queued(
    cast: Cast, mate: Api
) -> None:
    scene = Scene(cast)
    cluster = scene.cluster()
    run = scene.run(cluster, status=Status.RECOVERING, recover_at=NOW())
    make_attempt(run, [make_node(cluster)], go={"master_addr": "127.0.0.1", "master_port": 1})
    schedule(cluster.pk, NOW())
    assert mate("GET", f"/runs/{run.pk}").json()["reason"]["code"] == "waits-for-cleanup" and not counted(mate)


def test_a_code_of_an_earlier_version_is_replaced_in_the_next_round_and_counted_until_then(
    cast: Cast, mate: Api
) -> None:
    scene = Scene(cast)
    run = scene.run(scene.taken())
    schedule(str(run.cluster_id), NOW())
    Run.objects.filter(pk=run.pk).update(reason_code="waiting")
    assert counted(mate) == {"queued": 1}
    schedule(str(run.cluster_id), NOW())
    assert counted(mate) == {"slots-taken": 1}

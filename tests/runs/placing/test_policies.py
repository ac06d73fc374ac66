"""The order of a queue: pure functions on plain values, and what the placing of a cluster makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.models import Cluster, Project, Run
from runs.placing.fitting import Placed, Request
from runs.placing.planning import rooms_of
from runs.placing.policies import POLICIES, Standing, Standings, ordered
from runs.placing.queue import NEW, Ahead, arranged, request_of, requests_of, waiting_runs
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey
from trainyard.spec import read_spec

MakeRun = Callable[..., Run]


def asked(run: str, project: str, slots: int = 1, *, priority: int = 50, num_shares: int = 1) -> Request:
    return Request(run, 1, slots, project=project, priority=priority, num_shares=num_shares)


def order(policy: str, *requests: Request, **held: float) -> str:
    return in_order(policy, requests, {name: Standing(held=number) for name, number in held.items()})


def in_order(policy: str, requests: Sequence[Request], standings: Standings) -> str:
    return "".join(one.run for one in ordered(POLICIES[policy], requests, standings))


def test_first_come_is_first_served_whoever_holds_what() -> None:
    assert order("first-come", asked("a", "x"), asked("b", "x"), asked("c", "y"), x=9) == "abc"


def test_the_project_that_holds_the_fewest_slots_is_next() -> None:
    queue = [asked("a", "x"), asked("b", "x"), asked("c", "y"), asked("d", "y"), asked("e", "z")]
    assert order("equal-shares", *queue) == "acebd"
    assert order("equal-shares", *queue, x=2, y=1) == "ecadb"


def test_a_project_counts_as_holding_what_its_runs_before_in_the_queue_ask_for() -> None:
    assert order("equal-shares", asked("a", "x", 4), asked("b", "x"), asked("c", "y"), asked("d", "y", 2)) == "acdb"
    half = [asked(one, "x", num_shares=2) for one in "abc"]
    assert order("equal-shares", *half, *(asked(one, "y") for one in "de")) == "adbce"


def test_the_project_that_has_used_the_least_by_its_weight_is_next() -> None:
    queue = [asked(one, "x") for one in "abc"] + [asked(one, "y") for one in "def"]
    assert in_order("fair-share", queue, {}) == "adbecf"
    assert in_order("fair-share", queue, {"x": Standing(used=1.0)}) == "daebfc"
    # A weight of 2 makes two turns of one, and half of what was used.
    assert in_order("fair-share", queue, {"y": Standing(weight=2.0)}) == "adebfc"
    assert in_order("fair-share", queue, {"y": Standing(used=8_000.0, weight=2.0)}) == "abdecf"


def of(group: str, *, weight: float = 1.0, group_weight: float = 1.0, hours: float = 0.0) -> Standing:
    return Standing(used=3600 * hours, weight=weight, group=group, group_weight=group_weight)


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        ({}, "adgbehcfi"),  # three projects by themselves
        # x and y share one turn, which z has alone.
        ({"x": of("lab"), "y": of("lab")}, "agdhbiecf"),
        ({"x": of("lab", group_weight=2.0), "y": of("lab", group_weight=2.0)}, "agdbhecif"),
        # Within the group a weight counts, and not beside others.
        ({"x": of("lab", weight=2.0), "y": of("lab")}, "agdhbicef"),
        ({"x": of("lab", weight=9.0), "y": of("lab", weight=9.0)}, "agdhbiecf"),
        # What one project of a group used counts for all of it.
        ({"x": of("lab", hours=1.5), "y": of("lab")}, "ghdieafbc"),
        ({"x": of("lab"), "y": of("lab"), "w": of("lab", hours=2.5)}, "ghiadbecf"),
        ({"x": of("lab", hours=1.5, group_weight=9.0), "y": of("lab", group_weight=9.0)}, "gdeafbchi"),
        # A group that is called as a project is another party.
        ({"x": of("z"), "y": of("z")}, "agdhbiecf"),
        ({"x": of("lab"), "y": of("other")}, "adgbehcfi"),
    ],
)
def test_groups_have_their_turns_by_weight_and_projects_within_a_group(standings: Standings, expected: str) -> None:
    queue = [asked(run, project) for project, runs in (("x", "abc"), ("y", "def"), ("z", "ghi")) for run in runs]
    assert in_order("fair-share", queue, standings) == expected


def test_a_wide_run_counts_for_all_its_slots() -> None:
    assert order("fair-share", asked("a", "x", 4), asked("b", "x"), *(asked(one, "y") for one in "cdefg")) == "acdefbg"


def test_a_priority_goes_first_in_its_own_project_alone() -> None:
    queue = [asked("a", "x"), asked("b", "x", priority=90), asked("c", "y", priority=60)]
    assert order("fair-share", *queue) == "bca"


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_project_is_guaranteed_comes_before_the_rest(policy: str) -> None:
    queue = [asked("a", "x", priority=99), asked("b", "y"), asked("c", "y", 2), asked("d", "y")]
    owed = {"y": Standing(held=1.0, used=1e9, guaranteed=3)}
    assert in_order(policy, queue, owed) == "bdac"
    assert in_order(policy, queue, {"y": owed["y"]._replace(held=3.0)}) == "abcd"


@pytest.mark.parametrize("policy", [name for name in POLICIES if POLICIES[name].asks_others])
def test_a_higher_priority_goes_first_and_each_run_comes_once(policy: str) -> None:
    queue = [asked(str(number), "xyz"[number % 3], priority=50 + number % 2) for number in range(9)]
    found = ordered(POLICIES[policy], queue, {"y": Standing(held=5.0)})
    assert [one.priority for one in found] == [51] * 4 + [50] * 5
    assert sorted(one.run for one in found) == sorted(one.run for one in queue)


@pytest.fixture
def other(cast: Cast) -> Project:
    """A second project on a cluster of equal shares with one node of two slots."""
    Cluster.objects.filter(pk=cast.cluster.pk).update(scheduling="equal-shares")
    cast.cluster.refresh_from_db()
    other = Project.objects.create(name="other")
    cast.cluster.projects.add(other)
    make_node(cast.cluster, slots=2)
    return other


def states(*runs: Run) -> list[str]:
    return [Run.objects.get(pk=run.pk).status for run in runs]


def test_a_cluster_of_equal_shares_gives_each_project_its_turn(
    cast: Cast, other: Project, make_run: MakeRun, valkey: Valkey
) -> None:
    runs = [make_run(name=f"run-{number}") for number in range(3)]
    late = make_run(name="late", project=other)
    schedule(cast.cluster.pk, timezone.now())
    assert states(*runs, late) == ["SCHEDULED", "QUEUED", "QUEUED", "SCHEDULED"]
    later = make_run(name="later", project=other)
    make_node(cast.cluster, slots=1)
    schedule(cast.cluster.pk, timezone.now())
    assert states(*runs, later) == ["SCHEDULED", "SCHEDULED", "QUEUED", "QUEUED"], "both hold as much, and it is older"


def test_a_forecast_goes_by_the_policy_too(cast: Cast, other: Project, make_run: MakeRun, valkey: Valkey) -> None:
    for number in range(3):
        make_run(name=f"run-{number}")
    rooms = rooms_of(list(cast.cluster.nodes.all()), timezone.now())
    document = read_spec(spec(project="other")).resolved()
    own = request_of(NEW, document)
    assert isinstance(Ahead(cast.cluster, rooms, timezone.now()).prospect(own)[0], Placed)
    cast.cluster.scheduling = "first-come"
    assert not isinstance(Ahead(cast.cluster, rooms, timezone.now()).prospect(own)[0], Placed)


def test_a_policy_that_this_version_does_not_know_is_first_come(cast: Cast, make_run: MakeRun) -> None:
    make_run(name="one")
    cast.cluster.scheduling = "of a later version"
    requests = requests_of(waiting_runs(cast.cluster))
    assert arranged(cast.cluster, requests, timezone.now()) == requests

"""The promises of ``CeleryEngine``, ``Settings`` and ``MachineSystem``, kept by every engine that brings nodes.

A new engine gets its rows in ``SETTINGS`` and ``WORLDS``. Its own tests are about what it alone does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.engines import ENGINES, allocating_engine
from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.settings import LINES, NUMBER, SECRET, TEXT, SettingField, SettingsError
from runs.engines.findings import Probe
from runs.engines.machine_system import JobState, MachineRequest, MachineSystem, mark_of
from runs.engines.refusals import SystemAway, until_failed
from runs.models import Allocation, Attempt, Cluster, Node, Run
from tests.cast import Cast, make_attempt, make_user, spec
from tests.runs.engines.local_engine import LocalEngine
from tests.runs.engines.worlds import SETTINGS, WORLDS, World

DOCS = Path(__file__).resolve().parents[3] / "docs"
CLUSTERS = (DOCS / "clusters.md").read_text()
ROW = re.compile(r"^\| `(?P<names>[a-z_`, ]+)` \| (?P<defaults>[^|]+) \| [^|]+ \|$", re.MULTILINE)
REQUEST = MachineRequest("a1", "hello", 1, 1, ["join_secret"], project="default", owner="ann")
BRINGING = [name for name in ENGINES if allocating_engine(name)]


@pytest.fixture(params=[*BRINGING, "local"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(name: str, monkeypatch: pytest.MonkeyPatch) -> AllocatingEngine:
    monkeypatch.setitem(ENGINES, "local", LocalEngine())
    engine = allocating_engine(name)
    assert engine is not None
    return engine


# Its settings: from the class of fields follow form, REST and docs.


def refused(engine: AllocatingEngine, document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SettingsError) as error:
        engine.checked(document)
    return error.value.problems


def test_settings_are_kept_with_their_defaults_and_secrets_are_none_of_them(
    name: str, engine: AllocatingEngine
) -> None:
    kept = engine.checked(SETTINGS[name])
    fields = engine.settings_type.fields()
    assert set(kept) == {field.name for field in fields if field.kind != SECRET}
    assert engine.checked(kept) == kept
    for secret in engine.settings_type.secret_names():
        assert "no setting" in refused(engine, {**kept, secret: "x"})[secret]
        assert "two" not in engine.settings_type.secret_problem(secret, "two\nlines")


def test_a_refused_setting_is_named_with_its_value(name: str, engine: AllocatingEngine) -> None:
    """Settings become words of commands and lines of scripts: none takes a line break."""
    wrong = {NUMBER: -1, TEXT: "two\nlines", LINES: ["two\nlines"]}
    for field in [field for field in engine.settings_type.fields() if field.kind in wrong]:
        found = refused(engine, {**SETTINGS[name], field.name: wrong[field.kind]})
        assert set(found) == {field.name}
        assert ("-1" if field.kind == NUMBER else "two") in found[field.name]
        assert set(refused(engine, {**SETTINGS[name], field.name: {"a": 1}})) == {field.name}
    assert set(refused(engine, {**SETTINGS[name], "nonsense": 1})) == {"nonsense"}


def test_settings_that_are_needed_are_named_where_they_are_missing(name: str, engine: AllocatingEngine) -> None:
    needed = {field.name for field in engine.settings_type.fields() if default_of(field, engine) == "needed"}
    assert needed == set(refused(engine, {}))


def page_of(name: str, engine: AllocatingEngine) -> str:
    """Return the engine's page: the table of engines on the page of all clusters says which."""
    (row,) = re.findall(rf"^\| `{name}` \|.*$", CLUSTERS, re.MULTILINE)
    (page,) = re.findall(r"\]\((\w+\.md)\)", row)
    return (DOCS / page).read_text()


def default_of(field: SettingField, engine: AllocatingEngine) -> str:
    """Return a default as the docs write it; empty for one that they put into words."""
    value = "" if field.kind == SECRET else getattr(engine.settings_type(), field.name)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int) and value != "":
        return f"`{value}`" if isinstance(value, str) else str(value)
    return "needed" if field.is_needed else ""


@pytest.mark.parametrize("name", BRINGING)
def test_the_docs_name_every_setting_with_its_default_and_no_other(name: str, engine: AllocatingEngine) -> None:
    documented: dict[str, str] = {}
    for row in ROW.finditer(page_of(name, engine)):
        names = row["names"].split("`, `")
        defaults = row["defaults"].split(", ")
        documented |= zip(
            names, defaults if len(defaults) == len(names) else [row["defaults"]] * len(names), strict=True
        )
    fields = {field.name: field for field in engine.settings_type.fields()}
    assert set(documented) == set(fields)
    exact = {one: default_of(field, engine) for one, field in fields.items()}
    wrong = {one: documented[one] for one, default in exact.items() if default and default not in documented[one]}
    assert not wrong


# The engine: what ``CeleryEngine`` promises, while its machines do not exist.


@pytest.fixture
def cluster(name: str, engine: AllocatingEngine, cast: Cast) -> Cluster:
    staff = make_user("administrator", is_staff=True, is_superuser=True)
    settings = SETTINGS[name]
    return actions.create_cluster(actor=staff, name="far", engine=name, settings=settings, projects=[cast.project.name])


@pytest.fixture
def attempt(cluster: Cluster, make_run: Callable[..., Run]) -> Attempt:
    return make_attempt(
        make_run(spec=spec(cluster="far"), cluster=cluster), list(Node.objects.filter(cluster=cluster)[:1])
    )


def test_what_is_offered_has_room_before_it_is_there(engine: AllocatingEngine, cluster: Cluster) -> None:
    rooms = engine.capacity(cluster, timezone.now())
    offered = [offer.slots for offer in engine.offers(cluster) for _ in range(offer.num_machines)]
    assert sorted(room.num_slots for room in rooms) == sorted(offered) != []
    assert all(len(room.free) == room.num_slots and not room.trouble for room in rooms)


def test_machines_that_an_attempt_has_are_not_free(
    engine: AllocatingEngine, cluster: Cluster, attempt: Attempt
) -> None:
    (taken,) = [
        room for room in engine.capacity(cluster, timezone.now()) if room.node == attempt.placements.get().node_id
    ]
    assert taken.free == ()


def test_what_is_asked_of_absent_machines_may_be_repeated(engine: AllocatingEngine, attempt: Attempt) -> None:
    assert engine.pending(attempt) == f"Asking {engine.label} for 1 machine."
    for _ in range(2):
        engine.start(list(attempt.placements.all()), {})
        engine.nudge(attempt.placements.get().node)
        engine.stop(attempt)
    assert Allocation.objects.get().attempt == attempt
    Allocation.objects.update(state=Allocation.State.OVER)
    assert engine.pending(attempt) == ""


def test_doctor_says_what_is_wrong_where_nothing_is_there(engine: AllocatingEngine, cluster: Cluster) -> None:
    if engine.label == "Kubernetes":
        cluster.settings["kubeconfig"] = "/nowhere/config"
    found = list(engine.examine(cluster))
    assert found and found[-1].is_fine is False and found[-1].sentence.endswith(".") and found[-1].advice


# The system of an engine: what ``MachineSystem`` promises.


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.extended if name == "sagemaker" else ()) for name in WORLDS]
)
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = WORLDS[request.param](tmp_path, request.getfixturevalue)
    yield made
    made.close()


def start(system: MachineSystem) -> str:
    """As control starts machines: it looks, then it submits."""
    found = [job for job in system.jobs() if job.attempt == REQUEST.attempt]
    return found[0].id if found and not found[0].is_incomplete else system.submit(REQUEST)


def test_a_start_that_is_repeated_by_another_control_is_one_job(world: World) -> None:
    """Also where the answer to the first one was lost: the job is found by its attempt."""
    first = start(world.system())
    assert start(world.system()) == first
    assert [(job.id, job.attempt) for job in world.system().jobs()] == [(first, REQUEST.attempt)]


def test_jobs_of_another_cluster_of_the_same_system_are_not_ours(world: World) -> None:
    start(world.system())
    assert world.system("f" * 12).jobs() == []
    assert mark_of("one") != mark_of("two")


def test_what_was_stopped_is_gone_and_is_stopped_again_without_harm(world: World) -> None:
    system = world.system()
    job = start(system)
    deadline = time.monotonic() + 60
    while any(
        one.state != JobState.OVER or one.is_kept for one in system.jobs()
    ):  # what is kept goes with another call
        assert time.monotonic() < deadline, system.jobs()
        system.cancel(job)
    system.cancel(job)
    found = system.find(job)
    assert found is None or found.state == JobState.OVER


def test_a_system_that_is_away_is_a_sentence_and_no_end(world: World) -> None:
    job = start(world.system())
    world.go_away()
    system = world.system()
    for ask in (system.jobs, lambda: system.submit(REQUEST), lambda: system.cancel(job)):
        with pytest.raises(SystemAway, match=r"^[A-Za-z].*\.$"):
            ask()
    with suppress(SystemAway):
        assert system.find(job) is None
    found = list(until_failed(system.steps(Probe("http://127.0.0.1:9", "127.0.0.1:9"))))
    assert found[-1].is_fine is False and found[-1].sentence.endswith(".")


def test_tokens_are_shown_to_nobody_else_on_the_system(world: World) -> None:
    start(world.system())
    assert "join_secret" not in repr(REQUEST)
    assert REQUEST.attempt in world.shown() and "join_secret" not in world.shown()

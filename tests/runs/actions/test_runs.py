"""What one may ask of a run, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import actions
from runs.actions import Refused
from runs.models import AuditEntry, CodeBundle, Event, Membership, Project, Role, Run, StorageKey
from runs.models.runs import StaleStatus
from runs.records.files.paths import output_folder
from runs.rights.access import Forbidden, NotFound
from runs.values.status import FINAL, LIVE, PLACED, Phase, Status, Wanted
from tests.cast import Cast, make_attempt, make_node, make_sweep, spec
from trainyard.spec import SpecError

MakeRun = Callable[..., Run]


def paths_of(error: pytest.ExceptionInfo[SpecError]) -> list[str]:
    return [problem.path for problem in error.value.errors]


def test_a_run_is_queued_with_its_spec_filled_in(cast: Cast) -> None:
    run = actions.submit_run(actor=cast.mate, document=spec(tags=["first"]))
    assert (run.status, run.created_by, run.name, run.tags) == ("QUEUED", cast.mate, "hello-gpt", ["first"])
    assert run.spec["train"]["optimizer"] == "adamw"
    assert [event.code for event in run.events.all()] == ["submitted"]


def test_control_is_told_when_the_run_is_committed(
    cast: Cast, django_capture_on_commit_callbacks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("runs.engines.control_hints.request_schedule", sent.append)
    with django_capture_on_commit_callbacks(execute=True):
        actions.submit_run(actor=cast.mate, document=spec())
        assert not sent
    assert sent == [cast.cluster.pk]


def test_a_job_is_launched_with_overrides(cast: Cast) -> None:
    job = actions.save_job(actor=cast.mate, document=spec())
    run = actions.submit_run(actor=cast.mate, job=job, overrides={"train.steps": 70})
    assert (run.job, run.spec["train"]["steps"]) == (job, 70)
    assert job.spec["train"]["steps"] == 300


def test_a_wrong_spec_writes_nothing(cast: Cast) -> None:
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=spec(train={"steps": -1}))
    assert paths_of(error) == ["train.steps"]
    assert not Run.objects.exists() and not Event.objects.exists()


def test_a_cluster_that_does_not_exist_is_named(cast: Cast) -> None:
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=spec(cluster="mars"))
    assert paths_of(error) == ["cluster"]


def test_what_no_registered_node_could_hold_is_refused_and_offline_ones_count(cast: Cast) -> None:
    make_node(cast.cluster, seen_at=None, is_draining=True)
    actions.submit_run(actor=cast.mate, document=spec(resources={"nodes": 1, "processes_per_node": 2}))
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=spec(resources={"nodes": 2}))
    assert paths_of(error) == ["resources.nodes"]


def test_on_a_cluster_without_nodes_a_run_waits(cast: Cast) -> None:
    run = actions.submit_run(actor=cast.mate, document=spec(resources={"nodes": 4}))
    assert run.status == "QUEUED"


def test_a_script_needs_a_bundle_of_its_project(cast: Cast) -> None:
    code = {"sha256": "a" * 64}
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=_script("train.py", code))
    assert paths_of(error) == ["task.code"]
    CodeBundle.objects.create(project=cast.project, sha256="a" * 64, size_bytes=1, files=["train.py"])
    actions.submit_run(actor=cast.mate, document=_script("train.py", code))
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=_script("other.py", code))
    assert paths_of(error) == ["task.script"]


def _script(script: str, code: dict[str, str]) -> dict[str, Any]:
    return {"name": "x", "task": {"script": script, "code": code}}


def test_a_viewer_may_not_submit_and_for_an_outsider_there_is_no_project(cast: Cast) -> None:
    with pytest.raises(Forbidden):
        actions.submit_run(actor=cast.viewer, document=spec())
    with pytest.raises(NotFound):
        actions.submit_run(actor=cast.outsider, document=spec())
    assert not Run.objects.exists()


@pytest.mark.parametrize("status", sorted(LIVE - PLACED))
def test_stopping_what_is_not_placed_cancels_it_at_once(cast: Cast, make_run: MakeRun, status: Status) -> None:
    run = actions.stop_run(actor=cast.mate, run=make_run(status=status))
    assert (run.status, run.reason_sentence) == ("CANCELLED", "Stopped by mate.")


@pytest.mark.parametrize("status", sorted(PLACED))
def test_stopping_what_is_placed_asks_its_nodes(cast: Cast, make_run: MakeRun, status: Status) -> None:
    run = make_run(status=status)
    make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    actions.stop_run(actor=cast.mate, run=run)
    actions.stop_run(actor=cast.mate, run=run)  # again is harmless
    run.refresh_from_db()
    assert run.status == "STOPPING"
    assert run.wanted == Wanted.STOP or status == Status.STOPPING


@pytest.mark.parametrize("status", sorted(FINAL))
def test_what_has_ended_is_not_stopped(cast: Cast, make_run: MakeRun, status: Status) -> None:
    with pytest.raises(Refused, match="already ended"):
        actions.stop_run(actor=cast.mate, run=make_run(status=status))


def test_a_stop_that_races_with_the_placing_wins_in_the_end(cast: Cast, make_run: MakeRun) -> None:
    run = make_run()
    Run.objects.filter(pk=run.pk).update(status=Status.SCHEDULED)  # while the person looked at QUEUED
    assert actions.stop_run(actor=cast.mate, run=run).status == "STOPPING"


def test_a_failed_run_is_restarted_as_itself(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED, wanted=Wanted.STOP)
    actions.restart_run(actor=cast.mate, run=run)
    run.refresh_from_db()
    assert (run.status, run.wanted, run.ended_at) == ("QUEUED", Wanted.RUN, None)


@pytest.mark.parametrize("status", sorted(LIVE | {Status.SUCCEEDED}))
def test_a_run_that_lives_or_succeeded_is_not_restarted(cast: Cast, make_run: MakeRun, status: Status) -> None:
    with pytest.raises(Refused):
        actions.restart_run(actor=cast.mate, run=make_run(status=status))


def test_a_clone_has_the_spec_and_knows_its_parent(cast: Cast, make_run: MakeRun) -> None:
    run = actions.submit_run(actor=cast.mate, document=spec())
    clone = actions.clone_run(actor=cast.owner, run=run, overrides={"name": "second"})
    assert (clone.parent, clone.name, clone.created_by) == (run, "second", cast.owner)


def test_an_ended_run_is_archived_and_brought_back(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.SUCCEEDED)
    assert actions.archive_run(actor=cast.mate, run=run).archived_at is not None
    assert actions.unarchive_run(actor=cast.mate, run=run).archived_at is None
    with pytest.raises(Refused, match="Only a run that has ended"):
        actions.archive_run(actor=cast.mate, run=make_run(status=Status.RUNNING))


def test_an_ended_run_is_deleted_with_its_files(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED)
    folder = output_folder(run.pk)
    folder.mkdir(parents=True)
    actions.delete_run(actor=cast.mate, run=run)
    assert not Run.objects.exists() and not folder.exists()


def test_others_runs_are_deleted_by_maintainers_and_live_ones_by_nobody(cast: Cast, make_run: MakeRun) -> None:
    with pytest.raises(Forbidden):
        actions.delete_run(actor=cast.mate, run=make_run(status=Status.FAILED, created_by=cast.owner))
    actions.delete_run(actor=cast.owner, run=make_run(status=Status.FAILED))
    with pytest.raises(Refused):
        actions.delete_run(actor=cast.mate, run=make_run(status=Status.RUNNING))


def test_tags_and_notes_hold_anything(cast: Cast, make_run: MakeRun) -> None:
    run = make_run()
    actions.tag_run(actor=cast.mate, run=run, tags=["<b>", " x ", "x", ""])
    actions.note_run(actor=cast.mate, run=run, notes="<script>")
    run.refresh_from_db()
    assert (run.tags, run.notes) == (["<b>", "x"], "<script>")


def test_tags_lose_what_nobody_sees(cast: Cast, make_run: MakeRun) -> None:
    tags = ["a\u202eb", "a\u200bb", "\u2066", "plain"]
    assert actions.tag_run(actor=cast.mate, run=make_run(), tags=tags).tags == ["ab", "plain"]


def test_only_a_run_that_is_out_of_contact_is_given_up(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    with pytest.raises(Refused, match="out of contact"):
        actions.give_up_run(actor=cast.mate, run=run)


@pytest.mark.parametrize("verb", ["stop_run", "restart_run", "clone_run", "archive_run", "delete_run", "give_up_run"])
def test_a_viewer_only_looks(cast: Cast, make_run: MakeRun, verb: str) -> None:
    run = make_run(status=Status.FAILED)
    with pytest.raises(Forbidden):
        getattr(actions, verb)(actor=cast.viewer, run=run)


def test_of_two_who_move_a_run_one_is_told(cast: Cast, make_run: MakeRun) -> None:
    run = make_run()
    other = Run.objects.get(pk=run.pk)
    run.move_to(Status.SCHEDULED, code="a", sentence="a")
    with pytest.raises(StaleStatus):
        other.move_to(Status.CANCELLED, code="b", sentence="b")
    assert [event.code for event in run.events.all()] == ["a"]


def test_an_ended_run_moves_with_its_code_to_a_project_where_one_may_launch(cast: Cast, make_run: MakeRun) -> None:
    vision = Project.objects.create(name="vision")
    digest = "a" * 64
    CodeBundle.objects.create(project=cast.project, sha256=digest, size_bytes=1, files=["train.py"])
    script = spec(task={"script": "train.py", "code": {"sha256": digest}})
    run = make_run(spec=script, job=actions.save_job(actor=cast.mate, document=spec()))
    there = Membership.objects.create(project=vision, user=cast.mate, role=Role.VIEWER)
    with pytest.raises(Forbidden, match="project vision"):
        actions.move_run(actor=cast.mate, run=run, project=vision)
    there.role = Role.MEMBER
    there.save()
    with pytest.raises(Refused, match="once it has ended"):
        actions.move_run(actor=cast.mate, run=run, project=vision)
    run = actions.stop_run(actor=cast.mate, run=run)
    with pytest.raises(Forbidden, match="may not use cluster"):
        actions.move_run(actor=cast.mate, run=run, project=vision)
    cast.cluster.projects.add(vision)
    with pytest.raises(Forbidden):  # this project's
        actions.move_run(actor=cast.viewer, run=run, project=vision)
    actions.move_run(actor=cast.mate, run=run, project=vision)
    run = Run.objects.get()
    assert (run.project, run.job, run.spec["project"]) == (vision, None, "vision")
    assert vision.bundles.get().sha256 == digest and run.events.last().code == "moved"  # type: ignore[union-attr]
    rows = AuditEntry.objects.filter(action="runs.move").values_list("project", "object", "result")
    assert [*rows] == [("vision", f"run {run.pk}", "ok")]  # of the old project the request has one


def test_what_a_move_would_tear_apart_stays(cast: Cast, make_run: MakeRun) -> None:
    vision = Project.objects.create(name="vision")
    Membership.objects.create(project=vision, user=cast.mate, role=Role.MEMBER)
    run, free = make_run(status=Status.FAILED), make_run(status=Status.FAILED)
    make_sweep(cast).trials.update(run=run)
    with pytest.raises(Refused, match="stays with it"):
        actions.move_run(actor=cast.mate, run=run, project=vision)
    StorageKey.objects.create(project=vision, number=1)
    with pytest.raises(Refused, match="neither leave nor enter"):
        actions.move_run(actor=cast.mate, run=free, project=vision)
    assert not Run.objects.filter(project=vision).exists()

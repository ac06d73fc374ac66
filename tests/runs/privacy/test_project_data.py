"""For how long a project keeps what, in which regions it lies, and how much it may be."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.life.reconcile.placing import schedule
from runs.models import GoneRun, Project, RemovedData, Run, StoredData
from runs.privacy import retention, storage
from runs.privacy.storage import DataKind
from runs.records.files.paths import output_folder, run_folder
from runs.records.metrics.models import Checkpoint
from runs.records.points import read
from runs.rights.access import Forbidden
from runs.values.refused import Refused
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run, make_user, spec
from tests.series import write_series
from trainyard.spec import SpecError

pytestmark = pytest.mark.django_db(databases="__all__")
NOW = timezone.now()


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME = tmp_path
    settings.SERVER_REGION = "eu"
    return tmp_path


def old_run(cast: Cast, **changes: Any) -> Run:
    """A run that ended 40 days ago, with curves, an output file and a checkpoint."""
    run = make_run(cast, status=Status.SUCCEEDED, ended_at=NOW - timedelta(days=40), **changes)
    write_series(run, "train/loss", [1.0, 2.0])
    folder = output_folder(run.pk)
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"x" * 1000)
    Checkpoint.objects.create(run_id=run.pk, step=5, fence=1, at=1.0, bytes=7000)
    return run


def put_in(cast: Cast, region: str) -> None:
    cast.cluster.region = region
    cast.cluster.save()


def test_what_would_go_is_shown_and_goes_in_a_round_and_is_said_in_the_history(cast: Cast) -> None:
    run = old_run(cast)
    make_run(cast, status=Status.SUCCEEDED, ended_at=NOW)
    days: dict[str, int | None] = {"metrics": 30, "outputs": 30, "checkpoints": 50}
    shown = {one.kind: one for one in actions.preview_retention(actor=cast.owner, project=cast.project, days=days)}
    assert shown[DataKind.OUTPUTS].num_runs == 1 and shown[DataKind.OUTPUTS].bytes == 1000
    assert shown[DataKind.METRICS].bytes > 0 and shown[DataKind.CHECKPOINTS].num_runs == 0
    assert output_folder(run.pk).exists(), "a preview removes nothing"
    project = actions.set_retention(actor=cast.owner, project=cast.project, days=days)
    assert retention.apply(project, NOW) == 2 and retention.apply(project, NOW) == 0
    assert read.series_list(run.pk) == [] and not output_folder(run.pk).exists()
    assert Checkpoint.objects.get().deleted_at is None
    sentences = set(run.events.values_list("sentence", flat=True))
    assert "Its metrics were removed: project default keeps them for 30 days after a run's end." in sentences


def test_checkpoints_go_from_their_nodes_unless_the_run_starts_again(cast: Cast) -> None:
    run = old_run(cast)
    assert actions.set_retention(actor=cast.owner, project=cast.project, days={"checkpoints": 1})
    retention.apply(cast.project, NOW)
    gone = RemovedData.objects.filter(retention.runs_without_checkpoints())
    assert Checkpoint.objects.get().deleted_at is not None and [one.run for one in gone] == [run]
    Run.objects.filter(pk=run.pk).update(status=Status.QUEUED, ended_at=None)
    assert not gone.all().exists() and not GoneRun.objects.exists()


def test_a_checkpoint_that_a_living_run_came_from_stays(cast: Cast) -> None:
    run = old_run(cast)
    make_run(cast, parent=run, status=Status.QUEUED)
    assert not retention.due(cast.project, DataKind.CHECKPOINTS, 1, NOW).exists()
    assert retention.due(cast.project, DataKind.LOGS, 1, NOW).exists()


def test_files_that_cannot_be_deleted_are_not_told_as_gone_and_are_tried_again(cast: Cast, tmp_path: Path) -> None:
    stuck, other = old_run(cast), old_run(cast)
    output_folder(stuck.pk).rename(tmp_path / "elsewhere")
    output_folder(stuck.pk).symlink_to(tmp_path / "elsewhere")  # to another disk: no link is followed
    actions.set_retention(actor=cast.owner, project=cast.project, days={"outputs": 30})
    assert retention.apply(cast.project, NOW) == 1, "the other one's"
    assert not stuck.events.exists() and not output_folder(other.pk).exists()
    assert [one.num_runs for one in retention.preview(cast.project, {DataKind.OUTPUTS: 30}, NOW)] == [1]
    output_folder(stuck.pk).unlink()
    assert retention.apply(cast.project, NOW) == 1 and retention.apply(cast.project, NOW) == 0


def test_a_run_whose_files_cannot_be_deleted_stays(cast: Cast, tmp_path: Path) -> None:
    run = old_run(cast)
    run_folder(run.pk).rename(tmp_path / "elsewhere")
    run_folder(run.pk).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=f"Files of run {run.pk} cannot be deleted: "):
        actions.delete_run(actor=cast.owner, run=run)
    actions.set_retention(actor=cast.owner, project=cast.project, days={"runs": 30})
    assert retention.apply(cast.project, NOW) == 0 and Run.objects.filter(pk=run.pk).exists()
    run_folder(run.pk).unlink()
    assert retention.apply(cast.project, NOW) == 1 and not Run.objects.exists()


def test_whole_runs_go_too(cast: Cast) -> None:
    run = old_run(cast)
    actions.set_retention(actor=cast.owner, project=cast.project, days={"runs": 30})
    retention.apply(Project.objects.get(), NOW)
    assert not Run.objects.filter(pk=run.pk).exists() and GoneRun.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize("days", [{"logs": 0}, {"secrets": 3}])
def test_what_is_no_such_kind_or_number_is_refused(cast: Cast, days: dict[str, int | None]) -> None:
    with pytest.raises(ValidationError):
        actions.set_retention(actor=cast.owner, project=cast.project, days=days)
    with pytest.raises(Forbidden):
        actions.set_retention(actor=cast.mate, project=cast.project, days={"logs": 3})


def test_every_byte_has_a_place_and_a_region(cast: Cast) -> None:
    put_in(cast, "us")
    old_run(cast)
    storage.measure(cast.project, NOW)
    found = {row.kind: row for row in StoredData.objects.all()}
    assert (found["outputs"].place, found["outputs"].region, found["outputs"].bytes) == ("this server", "eu", 1000)
    assert (found["checkpoints"].place, found["checkpoints"].region) == ("nodes of cluster local", "us")
    assert found["checkpoints"].bytes == 7000 and found["metrics"].bytes > 0 and found["runs"].number >= 1
    storage.measure(cast.project, NOW)
    assert StoredData.objects.count() == len(found), "measured again, not added"


def test_a_configuration_counts_for_the_storage_of_its_project(cast: Cast) -> None:
    small, large = make_run(cast), make_run(cast, config={"text": "x" * 10_000})
    sizes = [storage.of_runs(DataKind.RUNS, [run.pk]).bytes for run in (small, large)]
    assert sizes[1] - sizes[0] > 10_000


def test_a_pinned_project_launches_nowhere_else(cast: Cast) -> None:
    put_in(cast, "us")
    with pytest.raises(ValidationError, match="this server, which is in eu"):
        actions.set_regions(actor=cast.owner, project=cast.project, regions=["us"])
    with pytest.raises(ValidationError, match="Nothing is in the region"):
        actions.set_regions(actor=cast.owner, project=cast.project, regions=["mars"])
    actions.set_regions(actor=cast.owner, project=cast.project, regions=["eu"])
    with pytest.raises(SpecError, match="keeps its data in eu, and cluster local is in us"):
        actions.submit_run(actor=cast.mate, document=spec())


def test_a_run_that_waits_says_that_its_cluster_is_elsewhere_until_it_is_not(cast: Cast, valkey: object) -> None:
    make_node(cast.cluster)
    put_in(cast, "eu")
    run = make_run(cast)
    actions.set_regions(actor=cast.owner, project=cast.project, regions=["eu"])
    put_in(cast, "us")
    schedule(cast.cluster.pk, NOW)
    run.refresh_from_db()
    assert run.status == Status.QUEUED
    assert run.reason_sentence == "Project default keeps its data in eu, and cluster local is in us. It waits."
    put_in(cast, "eu")
    schedule(cast.cluster.pk, NOW)
    run.refresh_from_db()
    assert run.status == Status.SCHEDULED


@pytest.mark.parametrize(("used", "words"), [(79, ""), (80, "(80 %)"), (100, "no run starts until")])
def test_the_quota_speaks_at_80_percent(used: int, words: str) -> None:
    found = retention.usage("default", used, 100)
    assert (words in found.sentence) if words else found.sentence == ""
    assert retention.usage("default", used, None).sentence == ""


def test_a_full_project_starts_no_run(cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    with pytest.raises(Forbidden):
        actions.set_quota(actor=cast.owner, project=cast.project, quota_bytes=10)
    project = actions.set_quota(actor=root, project=cast.project, quota_bytes=1000)
    make_node(cast.cluster)
    old_run(cast)
    storage.measure(project, NOW)
    with pytest.raises(Refused, match="no run starts until something is deleted"):
        actions.submit_run(actor=cast.mate, document=spec())

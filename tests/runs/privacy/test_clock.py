"""Code that was sent counts for the project's quota at once, and goes when nothing of the project needs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.models import CodeBundle, Job, Project, RunCode
from runs.privacy import retention, storage
from runs.privacy.clock import tend
from runs.privacy.storage import DataKind
from runs.records.files.paths import bundle_path
from runs.values.refused import Refused
from tests.cast import Cast, make_run, make_sweep, spec
from trainyard import bundle

pytestmark = pytest.mark.django_db(databases="__all__")
Send = Callable[..., CodeBundle]
LONG_AFTER = timezone.now() + timedelta(days=3)


@pytest.fixture
def send(cast: Cast, tmp_path: Path, settings: Any) -> Send:
    """``send(num_bytes)``: store that much code, which nobody sent before."""
    settings.HOME = tmp_path / "home"

    def store(num_bytes: int = 100, project: Project | None = None) -> CodeBundle:
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        (folder / "train.py").write_bytes(os.urandom(num_bytes))
        return actions.store_bundle(actor=cast.owner, project=project or cast.project, data=bundle.pack(folder)[0])

    return store


def test_code_above_the_quota_is_refused_and_the_project_goes_on(cast: Cast, send: Send) -> None:
    Project.objects.update(quota_bytes=100_000)
    cast.project.refresh_from_db()
    kept = send(50_000)
    storage.measure(cast.project, timezone.now())
    with pytest.raises(Refused, match=r"stores 5\d\.\d KB of the 100 KB that it may.*this code has 6\d\.\d KB"):
        send(60_000)
    assert [one.pk for one in CodeBundle.objects.all()] == [kept.pk]
    assert retention.usage_of(cast.project).used_bytes == kept.size_bytes
    retention.require_room(cast.project)


def test_the_same_code_again_takes_no_room(cast: Cast, send: Send) -> None:
    kept = send()
    Project.objects.update(quota_bytes=kept.size_bytes)
    cast.project.refresh_from_db()
    data = bundle_path(kept.sha256).read_bytes()
    assert actions.store_bundle(actor=cast.owner, project=cast.project, data=data) == kept


def test_code_that_nothing_needs_goes_a_day_after_it_was_sent_last(cast: Cast, send: Send) -> None:
    found = send()
    tend(timezone.now())
    assert bundle_path(found.sha256).exists()
    CodeBundle.objects.update(created_at=timezone.now() - timedelta(days=2))
    data = bundle_path(found.sha256).read_bytes()
    actions.store_bundle(actor=cast.owner, project=cast.project, data=data)
    tend(timezone.now())
    assert bundle_path(found.sha256).exists(), "it was sent again a moment ago"
    tend(LONG_AFTER)
    assert not CodeBundle.objects.exists() and not bundle_path(found.sha256).exists()
    assert DataKind.CODE not in {where.kind for where, amount in storage.amounts(cast.project) if amount.number}


def of_run(cast: Cast, document: dict[str, Any], sha256: str) -> Any:
    return make_run(cast, spec=document)


def of_git(cast: Cast, document: dict[str, Any], sha256: str) -> Any:
    run = make_run(cast)
    RunCode.objects.create(run=run, sha256=sha256, url="https://git.example/a", commit="1")
    return run


def of_job(cast: Cast, document: dict[str, Any], sha256: str) -> Any:
    return Job.objects.create(project=cast.project, name="nightly", spec=document)


def of_sweep(cast: Cast, document: dict[str, Any], sha256: str) -> Any:
    sweep = make_sweep(cast)
    sweep.base_spec = document
    sweep.save()
    return sweep


@pytest.mark.parametrize("needs", [of_run, of_git, of_job, of_sweep])
def test_code_stays_while_something_of_the_project_needs_it(
    cast: Cast, send: Send, needs: Callable[[Cast, dict[str, Any], str], Any]
) -> None:
    found = send()
    document = spec(task={"script": "train.py", "code": {"sha256": found.sha256}})
    needing = needs(cast, document, found.sha256)
    tend(LONG_AFTER)
    assert bundle_path(found.sha256).exists() and CodeBundle.objects.exists()
    needing.delete()
    tend(LONG_AFTER)
    assert not bundle_path(found.sha256).exists() and not CodeBundle.objects.exists()


def test_a_file_stays_while_another_project_has_the_same_code(cast: Cast, send: Send) -> None:
    found, other = send(), Project.objects.create(name="other")
    CodeBundle.objects.create(project=other, sha256=found.sha256, size_bytes=found.size_bytes)
    make_run(cast, project=other, spec=spec(task={"script": "train.py", "code": {"sha256": found.sha256}}))
    tend(LONG_AFTER)
    assert [one.project for one in CodeBundle.objects.all()] == [other] and bundle_path(found.sha256).exists()
    other.delete()
    tend(LONG_AFTER)
    assert not bundle_path(found.sha256).exists(), "the file of a project that is gone"

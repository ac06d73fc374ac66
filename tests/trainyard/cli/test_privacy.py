"""`trainyard privacy`: an export, where data lie, and for how long they are kept."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from runs.models import PersonalExport, Project, Role, StoredData
from runs.privacy import clock
from tests.cast import Cast
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_an_export_is_brought_here(trainyard: Trainyard, cast: Cast, tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path
    late = trainyard("privacy", "export", "--timeout", "0", "--to", str(tmp_path / "late.zip"))
    assert late.code == 1 and "not ready" in late.err
    clock.make_exports(timezone.now())
    target = tmp_path / "mine.zip"
    done = trainyard("privacy", "export", "--to", str(target))
    assert done.code == 0 and done.out.strip() == str(target), done.err
    assert "runs.User.pk.json" in zipfile.ZipFile(target).namelist() and PersonalExport.objects.count() == 1


def test_what_lies_where_and_what_would_go(trainyard: Trainyard, cast: Cast) -> None:
    values = {"project": cast.project, "measured_at": timezone.now()}
    StoredData.objects.create(kind="logs", place="this server", region="eu", bytes=2_000, number=3, **values)
    cast.project.memberships.filter(user=cast.mate).update(role=Role.OWNER)
    assert "this server  eu" in trainyard("privacy", "storage", "default").out
    shown = trainyard("privacy", "retention", "default", "--keep", "logs=30")
    assert "logs" in shown.out and "30 d" in shown.out and Project.objects.get().keep_logs_days is None, shown.err
    kept = trainyard("privacy", "retention", "default", "--keep", "logs=30", "--yes")
    assert kept.code == 0 and Project.objects.get().keep_logs_days == 30
    assert "for ever" in trainyard("privacy", "retention", "default").out

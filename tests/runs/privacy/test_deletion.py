"""Runs that were archived long ago go, and no others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.models import Run
from runs.privacy.retention import forget_old
from runs.records.files import paths as places
from runs.records.points import read
from runs.values.status import Status
from tests.series import write_series

pytestmark = pytest.mark.django_db(databases="__all__")
NOW = timezone.now()
LONG_AGO = NOW - timedelta(days=31)


@pytest.fixture(autouse=True)
def thirty_days(settings: Any) -> None:
    settings.KEEP_ARCHIVED_DAYS = 30


def test_a_run_goes_with_its_points_and_files_once_it_was_archived_long_ago(make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED, archived_at=LONG_AGO)
    write_series(run, "train/loss", [1.0, 2.0])
    folder = places.run_folder(run.pk)
    folder.mkdir(parents=True)
    assert forget_old(NOW, shard=run.shard) == 1
    assert not Run.objects.filter(pk=run.pk).exists()
    assert read.series_list(run.pk) == []
    assert not folder.exists()


def test_what_is_young_or_not_archived_or_of_another_shard_stays(make_run: Callable[..., Run]) -> None:
    make_run(status=Status.SUCCEEDED, archived_at=NOW - timedelta(days=29))
    make_run(status=Status.SUCCEEDED, ended_at=LONG_AGO)
    make_run(status=Status.FAILED, archived_at=LONG_AGO, shard=1)
    assert forget_old(NOW, shard=0) == 0
    assert Run.objects.count() == 3


def test_without_a_number_of_days_nothing_goes(make_run: Callable[..., Run], settings: Any) -> None:
    settings.KEEP_ARCHIVED_DAYS = 0
    make_run(status=Status.SUCCEEDED, archived_at=LONG_AGO)
    assert forget_old(NOW, shard=0) == 0
    assert Run.objects.count() == 1

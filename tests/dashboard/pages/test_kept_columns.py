"""Columns of a sweep that has ended are computed once, and anew as soon as something of it changes."""

from __future__ import annotations

import pytest
from django.utils import timezone

from dashboard.pages.sweeps import views
from runs.models import Run, Sweep, Trial
from runs.values.status import Status
from tests.cast import Cast, make_run, make_sweep

pytestmark = pytest.mark.django_db


def ended_sweep(cast: Cast) -> Sweep:
    now = timezone.now()
    sweep = make_sweep(cast)
    sweep.status, sweep.ended_at = "SUCCEEDED", now
    sweep.save()
    for number in (1, 2):
        run = make_run(cast, status=Status.SUCCEEDED, started_at=now, ended_at=now)
        Trial.objects.create(
            sweep=sweep, number=number, state="COMPLETE", value=1.0, run=run, ended_at=now,
            parameters={"train.learning_rate": 0.01},
        )  # fmt: skip
    return sweep


def test_columns_are_computed_once_and_anew_after_a_change(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, now, computed = ended_sweep(cast), timezone.now(), []
    original = views.columns
    monkeypatch.setattr(views, "columns", lambda *words: (computed.append(1), original(*words))[1])
    first = views.columns_json(sweep, now)
    assert views.columns_json(sweep, now) == first and len(computed) == 1
    sweep.cursor += 1  # as every change of a trial does
    views.columns_json(sweep, now)
    assert len(computed) == 2
    Run.objects.filter(trial__sweep=sweep).first().save()  # type: ignore[union-attr]
    views.columns_json(sweep, now)
    assert len(computed) == 3


def test_nothing_is_kept_while_a_run_goes_on(cast: Cast) -> None:
    sweep, now = ended_sweep(cast), timezone.now()
    Run.objects.filter(trial__sweep=sweep, trial__number=1).update(ended_at=None, status=Status.RUNNING)
    views.columns_json(sweep, now)
    assert sweep.pk not in views._kept

"""A script's alerts are lines of its run's history, once each, and of them notices are made."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from runs.ingest import alerts
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import NoticeRule, Project, Run
from runs.models.notices import Where
from runs.notices.making import make_of_events
from runs.records.metrics.models import Media
from tests.cast import Cast
from tests.media import image, text
from tests.runs.api.conftest import Api
from tests.spools import Spool

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]


def log(run: Run, *payloads: dict[str, Any], rank: int = 0) -> None:
    spool = Spool()
    spool.begin(rank=rank)
    for payload in payloads:
        spool.put("media", payload)
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(spool.bytes))


def alert(level: str, said: str, step: int = 1, **changes: Any) -> dict[str, Any]:
    return text(step, f"alert/{level}", said, **{"at": time.time(), **changes})


def lines(run: Run) -> list[str]:
    return list(run.events.filter(code="alert").values_list("sentence", flat=True))


def test_an_alert_is_a_line_of_the_history_and_a_notice_by_its_level(cast: Cast, make_run: MakeRun) -> None:
    run = make_run()
    mine, hard = (NoticeRule.objects.create(owner=cast.viewer, where=where, kinds={"alert": least})
                  for where, least in ((Where.PAGE, 1), (Where.EMAIL, 3)))  # fmt: skip
    log(run, alert("warn", "Loss is high\nabove <b>\u202e"), image(2, "alert/warn"), text(3, "alert/hint"))
    assert lines(run) == ["The script raised an alert (warn): Loss is high: above <b>\\u202e"]
    log(run, alert("error", "Loss is NaN", 4), alert("error", "Loss is NaN", 9))
    make_of_events(timezone.now())
    found = [(one.kind, one.count) for one in mine.notices.order_by("pk")]
    assert found == [("alert", 1), ("alert", 2)]
    assert [one.count for one in hard.notices.all()] == [2]


def test_all_ranks_and_a_batch_that_comes_again_raise_it_once_and_a_loop_fills_no_history(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    for rank in range(3):
        log(run, alert("info", "Half way"), rank=rank)
    assert len(lines(run)) == 1
    monkeypatch.setattr(alerts, "MOST", 4)
    log(run, *(alert("info", f"Step {step}", step) for step in range(9)))
    assert len(lines(run)) == 4 and Media.objects.filter(run_id=run.pk).count() == 12


def test_what_an_import_brings_is_no_news_and_no_run_needs_no_alert(make_run: MakeRun) -> None:
    run = make_run()
    log(run, alert("error", "Long ago", at=1000.0), alert("error", "Of a clock ahead", 2, at=time.time() + 9e9))
    assert lines(run) == ["The script raised an alert (error): Of a clock ahead"]
    assert run.events.get(code="alert").at <= timezone.now()
    log(Run(pk="nosuch"), alert("error", "Of nothing"))


@pytest.mark.usefixtures("valkey")
def test_the_history_of_a_project_that_encrypts_has_no_text(
    cast: Cast, make_run: MakeRun, tmp_path: Path, settings: Any
) -> None:
    settings.HOME = tmp_path
    assert Api(cast.owner)("PUT", "/projects/default/encryption", {"encrypts": True}).status_code == 200
    run = make_run(project=Project.objects.get(pk=cast.project.pk))
    log(run, alert("warn", "Patient 4711"))
    event = run.events.get(code="alert")
    assert "4711" not in f"{event.sentence} {event.data}" and event.sentence.endswith("its text is among the media.")

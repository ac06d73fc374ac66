"""What home says of the time since one was there, beside what the table of runs finds by its links."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.pages.home.views import since_last_visit
from runs.models import Project, Run, RunTime, User
from runs.records.time_use.split import NAMES
from runs.values.status import Status
from tests.cast import Cast

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def seen(user: User, *, hours_ago: float) -> datetime:
    """Let the person have opened home the last time so long ago."""
    at = timezone.now() - timedelta(hours=hours_ago)
    User.objects.filter(pk=user.pk).update(home_seen_at=at)
    return at


def changes_of(client: Client) -> list[tuple[str, int]]:
    """The changes as home says them, each as many as the table of its link holds."""
    found = client.get("/").context["changes"]
    for one in found:
        assert client.get(one.url).context["number"].num == one.num, one
    return [(one.badge.word if one.badge else "launched", one.num) for one in found]


def test_what_ended_and_what_others_launched_since_is_counted_as_the_table_counts_it(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    at = seen(cast.mate, hours_ago=5)
    for status, hours in ((Status.FAILED, 1), (Status.FAILED, 2), (Status.SUCCEEDED, 4), (Status.SUCCEEDED, -3)):
        run = make_run(status=status, ended_at=at + timedelta(hours=hours))
        Run.objects.filter(pk=run.pk).update(created_at=at - timedelta(hours=9), created_by=cast.mate)
    make_run(status=Status.RUNNING, created_by=cast.owner)
    make_run(status=Status.RUNNING, created_by=cast.mate)
    client = as_user(cast.mate)
    assert changes_of(client) == [("failed", 2), ("succeeded", 1), ("launched", 1)]


def test_who_was_never_there_and_who_never_left_is_told_nothing(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(status=Status.FAILED, ended_at=timezone.now())
    client = as_user(cast.mate)
    assert "Since you were here" not in client.get("/").content.decode()
    assert client.get("/").context["changes"] == []


def test_a_visit_goes_on_until_half_an_hour_after_the_page_was_opened_last(cast: Cast) -> None:
    user, now = cast.mate, timezone.now()
    assert since_last_visit(user, now) is None
    assert since_last_visit(user, now + timedelta(minutes=20)) is None
    later = now + timedelta(hours=8)
    assert since_last_visit(user, later) == now + timedelta(minutes=20)
    assert since_last_visit(user, later + timedelta(minutes=1)) == now + timedelta(minutes=20)
    user.refresh_from_db()
    assert user.home_left_at == now + timedelta(minutes=20)


def test_the_page_that_fetches_itself_again_is_no_visit(cast: Cast, as_user: AsUser) -> None:
    at = seen(cast.mate, hours_ago=5)
    as_user(cast.mate).get("/?fragment=home")
    cast.mate.refresh_from_db()
    assert cast.mate.home_seen_at == at


def test_the_week_shows_the_time_of_runs_that_ended_within_it(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    times: dict[str, Any] = dict.fromkeys(NAMES, 0.0) | {"productive_s": 3600.0, "queued_s": 1200.0}
    for days_ago in (1, 8):
        ended = timezone.now() - timedelta(days=days_ago)
        RunTime.objects.create(run=make_run(status=Status.SUCCEEDED, ended_at=ended), ended_at=ended, **times)
    week = as_user(cast.mate).get("/").context["week"]
    assert (week.goodput, week.bar.total) == ("75 %", "1 h 20 min")


def test_owners_read_of_limits_that_are_nearly_used_since_they_were_there(cast: Cast, as_user: AsUser) -> None:
    words = "Project default holds 4 of the 5 slots that it may."
    notice = {"at": timezone.now().isoformat(), "sentence": words}
    Project.objects.update(limit_notices={"slots": notice})
    client = as_user(cast.owner)
    page = client.get("/").content.decode()
    assert page.count(words) == 2, "once to read, once to hover over"
    assert f'href="/people/{cast.project.pk}/data/"' in page
    assert words in client.get("/").content.decode(), "it is the same visit"
    assert words not in as_user(cast.mate).get("/").content.decode()
    seen(cast.owner, hours_ago=-1)
    User.objects.filter(pk=cast.owner.pk).update(home_left_at=timezone.now())
    assert words not in client.get("/").content.decode()

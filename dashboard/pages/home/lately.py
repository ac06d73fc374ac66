"""What changed since a person opened home the last time, and where the time of the last week's runs went."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from dashboard.pages.shared.badges import Badge, badge
from dashboard.pages.shared.time_bar import TimeView, time_view
from runs.models import Run, User
from runs.models.indexes import one_of
from runs.records.time_use.sums import time_of_all
from runs.values.status import FINAL, Status

VISIT_GAP = timedelta(minutes=30)  # after which one was away
KEPT_APART = timedelta(minutes=1)  # a visit is written no more often
LONGEST = timedelta(days=30)
WEEK = timedelta(days=7)
ORDER = [Status.FAILED, Status.SUCCEEDED, Status.CANCELLED]


class Change(NamedTuple):
    """So many runs that ended so, or that others launched (then without a badge), and the table of them."""

    badge: Badge | None
    num: int
    url: str


def since_last_visit(user: User, now: datetime) -> datetime | None:
    """Note that the person looks now. Return when they looked last before they were away, None where they never did."""
    seen = user.home_seen_at
    if seen is None or now - seen > VISIT_GAP:
        user.home_left_at = seen
    if seen is None or now - seen > KEPT_APART:
        user.home_seen_at = now
        User.objects.filter(pk=user.pk).update(home_seen_at=now, home_left_at=user.home_left_at)
    return user.home_left_at


def changes_since(user: User, runs: QuerySet[Run], since: datetime | None, now: datetime) -> list[Change]:
    """Count the runs that ended since then, by how, and those that others launched; of a month at most."""
    if since is None:
        return []
    since = max(since, now - LONGEST).replace(microsecond=0)
    ended = runs.filter(one_of("status", FINAL), ended_at__gte=since, ended_at__isnull=False).order_by()
    counts: dict[str, int] = dict(ended.values_list("status").annotate(num=Count("pk")))
    moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    found = [
        Change(badge(status), counts[status], _table(f"ended >= {moment} and status = {status}"))
        for status in ORDER
        if counts.get(status)
    ]
    launched = runs.filter(~Q(created_by=user), created_at__gte=since).order_by().count()
    others = _table(f'created >= {moment} and user != "{user.username}"')
    return [*found, Change(None, launched, others)] if launched else found


def week_of(runs: QuerySet[Run], now: datetime) -> TimeView | None:
    """Where the time went of the runs that live or ended within a week; None where there are none."""
    return time_view(time_of_all(runs, now, WEEK), "The last 7 days")


def _table(words: str) -> str:
    return f"{reverse('runs')}?{urlencode({'filter': words, 'trials': '1'})}"

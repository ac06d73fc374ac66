"""Runs of the table by their place in it: how many there are, and those between two places.

While one reads, what is new does not move what is there: the runs that came after a moment are counted and left out.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from dashboard.pages.shared.grid import MOST_AT_ONCE, Sort
from runs.finding.queries import order_of
from runs.models import Run

MOST_ROWS = 200_000  # that one scrolls through
AT_FIRST = 2_000  # that are counted for the page itself; its script asks for the others
MOST_NEW = 200
# What rows show and offer: a run has three times as many columns.
OF_ROWS = ("name", "project__name", "created_by__username", "created_by__first_name", "created_by__last_name",
           "status", "wanted", "reason_code", "reason_sentence", "tags", "spec", "config", "local_id", "node_counts",
           "created_at", "started_at", "ended_at", "archived_at")  # fmt: skip


class Number(NamedTuple):
    """How many runs fit; where ``is_more``, there are more than that."""

    num: int
    is_more: bool


class Listed:
    def __init__(self, runs: QuerySet[Run], sorts: Sequence[Sort], until: datetime | None = None) -> None:
        """``until`` is the moment behind which runs are new. Raises FilterError for an unknown sort."""
        self.order = order_of(",".join(map(str, sorts)))
        self.until = until or timezone.now()
        new = _newer(runs, until) if until else []
        self.num_new = len(new)
        self._runs = runs.exclude(pk__in=new) if new else runs
        self._num: int | None = None  # known once their end was read

    def number(self, most: int = MOST_ROWS) -> Number:
        num = self._runs.order_by()[: most + 1].count() if self._num is None else self._num
        return Number(min(num, most), num > most)

    def window(self, first: int, count: int) -> list[Run]:
        """Return the runs from the place ``first`` on."""
        return whole(keys_of(self._runs, self.order, first, min(count, MOST_AT_ONCE)))

    def keys(self, count: int, first: int = 0) -> list[str]:
        """Return the ids of the runs from the place ``first`` on."""
        keys = keys_of(self._runs, self.order, first, count)
        if len(keys) < count and (keys or not first):
            self._num = first + len(keys)
        return keys


def _newer(runs: QuerySet[Run], until: datetime) -> list[str]:
    newer = runs.filter(created_at__gt=until).order_by("-created_at", "-pk")
    return list(newer.values_list("pk", flat=True)[:MOST_NEW])


def keys_of(runs: QuerySet[Run], order: Any, first: int, count: int) -> list[str]:
    """Return the ids of ``count`` runs from the place ``first`` on, read from an index alone where the order has
    one."""
    if not isinstance(order, str):
        return list(order.ids(runs, first, count))
    sign, field = ("-", order[1:]) if order.startswith("-") else ("", order)
    return list(runs.order_by(f"{sign}{field}", f"{sign}pk").values_list("pk", flat=True)[first : first + count])


def whole(keys: Sequence[str]) -> list[Run]:
    """Return the runs of those ids, in that order, with what their rows need; what is gone is left out."""
    known = Run.objects.select_related("created_by", "project").only(*OF_ROWS).in_bulk(keys)
    return [known[key] for key in keys if key in known]

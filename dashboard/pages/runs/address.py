"""The address of the table of runs says all that it shows: which runs, in which order, by which columns. And the runs
that it asks for, by their place."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from dashboard.pages.runs.cells import DEFAULT
from dashboard.pages.shared.grid import MOST_AT_ONCE, ROW, Chosen, Sort, read_columns, read_sorts
from runs.finding.language import MAX_LENGTH, FilterError
from runs.finding.queries import order_of
from runs.models import Run
from runs.presenting.listing import OF_SWEEP, find_runs, statuses_named

ASKED = ("view", "filter", "tag", "project", "sort", "trials", "columns", "group", "open", "density", "colour",
         "charts")  # fmt: skip
LONGEST = {"columns": 6000, "sort": 1000, "group": 1000, "open": 4000}
NEWEST_FIRST = Sort("created", True)
MOST_GROUPED = 4
AROUND = 40  # characters on each side of one that an error names

Asked = dict[str, str]


def asked_of(request: HttpRequest) -> Asked:
    asked = {name: request.GET.get(name, "").strip()[: LONGEST.get(name, 200)] for name in ASKED}
    # Without its spaces in front nobody would find the character that an error names; `q` was the field's old name.
    text = request.GET.get("filter") or request.GET.get("q", "")
    if asked["density"] not in ROW:
        asked["density"] = ""
    return {**asked, "filter": text[: MAX_LENGTH + 1]}


def url_of(asked: Asked, **changes: str) -> str:
    return f"?{urlencode({name: value for name, value in {**asked, **changes}.items() if value}, safe=',/@!')}"


def columns_of(asked: Asked) -> list[Chosen]:
    return read_columns(asked["columns"]) or [Chosen(name) for name in DEFAULT]


def sorts_of(asked: Asked) -> list[Sort]:
    """Return what the runs are sorted by; ``created_at`` was a name of ``created``."""
    named = [one._replace(name="created") if one.name == "created_at" else one for one in read_sorts(asked["sort"])]
    return named or [NEWEST_FIRST]


def groups_of(asked: Asked) -> list[str]:
    return [one.name for one in read_columns(asked["group"])][:MOST_GROUPED]


def has_trials(asked: Asked) -> bool:
    return asked["trials"] == "1" or asked["tag"].startswith(OF_SWEEP)


def opened_of(asked: Asked) -> list[str]:
    """Return the sweeps, or the groups, that are unfolded."""
    return [one.name for one in read_columns(asked["open"])]


def runs_of(request: HttpRequest, asked: Asked, *, has_best: bool = False) -> QuerySet[Run]:
    """Return the runs that the address asks for, in no order; without trials, where it ``has_best``, one for each
    sweep. Raises FilterError and BadQuery."""
    return find_runs(
        request.user,
        status=statuses_named(asked["view"]) if asked["view"] not in ("", "archived") else (),
        is_archived=asked["view"] == "archived",
        project=asked["project"],
        tags=[asked["tag"]] if asked["tag"] else (),
        fitting=asked["filter"],
        has_trials=has_trials(asked),
        has_best=has_best,
    )


def problem_of(error: FilterError, text: str) -> dict[str, str]:
    """Return why a filter cannot be read, with the text around the character that this is about."""
    at = error.position
    before, after = text[:at], text[at + 1 :]
    return {
        "sentence": error.message,
        "before": before if len(before) <= AROUND else f"…{before[-AROUND:]}",
        "character": text[at : at + 1],
        "after": after if len(after) <= AROUND else f"{after[:AROUND]}…",
    }


# Runs by their place in the table: how many there are, and those between two places. While one reads, what is new does
# not move what is there: the runs that came after a moment are counted and left out.

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
        newer = runs.filter(created_at__gt=self.until).order_by("-created_at", "-pk")
        new = list(newer.values_list("pk", flat=True)[:MOST_NEW]) if until else []
        self.num_new = len(new)
        self._runs = runs.exclude(pk__in=new) if new else runs
        self._num: int | None = None  # known once their end was read

    def number(self, most: int = MOST_ROWS) -> Number:
        num = self._runs.order_by()[: most + 1].count() if self._num is None else self._num
        return Number(min(num, most), num > most)

    def window(self, first: int, count: int) -> list[Run]:
        return whole(keys_of(self._runs, self.order, first, min(count, MOST_AT_ONCE)))

    def keys(self, count: int, first: int = 0) -> list[str]:
        keys = keys_of(self._runs, self.order, first, count)
        if len(keys) < count and (keys or not first):
            self._num = first + len(keys)
        return keys


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

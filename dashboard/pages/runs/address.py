"""The address of the table of runs says all that it shows: which runs, in which order, by which columns."""

from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest

from dashboard.pages.runs.cells import DEFAULT
from dashboard.pages.shared.grid import ROW, Chosen, Sort, read_columns, read_sorts
from runs.finding.language import MAX_LENGTH, FilterError
from runs.models import Run
from runs.presenting.listing import find_runs, statuses_named

ASKED = ("view", "filter", "tag", "project", "sort", "trials", "columns", "group", "open", "density", "colour",
         "charts")  # fmt: skip
LONGEST = {"columns": 6000, "sort": 1000, "group": 1000, "open": 4000}
OF_SWEEP = "sweep:"  # how the tag begins that all runs of a sweep have
NEWEST_FIRST = Sort("created", True)
MOST_GROUPED = 4
AROUND = 40  # characters on each side of one that an error names

Asked = dict[str, str]


class FilterProblem(NamedTuple):
    """Problem of a filter that cannot be read, with the text around the character that it is about."""

    sentence: str
    before: str
    character: str
    after: str


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
    """Return the fields that the runs are grouped by."""
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


def problem_of(error: FilterError, text: str) -> FilterProblem:
    at = error.position
    before, after = text[:at], text[at + 1 :]
    return FilterProblem(
        error.message,
        before if len(before) <= AROUND else f"…{before[-AROUND:]}",
        text[at : at + 1],
        after if len(after) <= AROUND else f"{after[:AROUND]}…",
    )

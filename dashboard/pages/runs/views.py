"""The table of runs; everything that chooses what it shows is in the URL. Its buttons are calls of actions."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString, mark_safe

from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.frame import answer, page, refusal, show
from dashboard.pages.shared.run_offers import Offers, offers_of
from dashboard.pages.shared.run_rows import Row, coloured, rows, run_url
from runs import actions
from runs.api import paging
from runs.finding.language import MAX_LENGTH, FilterError
from runs.finding.queries import order_of
from runs.models import Run, User
from runs.presenting.listing import BadQuery, find_runs, statuses_named, trials_among
from runs.presenting.runs import run_documents
from runs.rights.access import Forbidden, NotFound, Permission, get_run, projects_with
from runs.rights.access.operations import lists, thing

MAX_RUNS = 5000
MAX_FIELDS = 2000  # of all specs together; a spreadsheet has 16,384 columns
RUNS_AT_ONCE = 200
FACTS = ("id", "name", "status", "project", "cluster", "step", "created_by", "created_at", "started_at", "ended_at")
METRICS = ("train/loss", "val/loss")
STATISTICS = ("last", "min", "max")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
ID, NAME = "RUN-ID", "RUN-NAME"
LIMIT = 50
AROUND = 40  # characters on each side of one that an error names
MAX_TAGS = 3  # of a run, shown in its row
VIEWS = (
    ("All", ""),
    ("Live", "live"),
    ("Succeeded", "succeeded"),
    ("Failed", "failed"),
    ("Cancelled", "cancelled"),
    ("Archived", "archived"),
)
ASKED = ("view", "filter", "tag", "project", "sort", "trials", "cursor")
OF_SWEEP = "sweep:"  # how the tag begins that all runs of a sweep have
NEWEST_FIRST = "-created_at"
SORTED = ("created_at", "name", "status")  # columns whose heads sort


class RunLine(NamedTuple):
    """A row of the table."""

    row: Row
    url: str
    tags: list[tuple[str, str]]  # the first few, each with the URL of the runs that have it
    num_more_tags: int
    actions: str  # markup of the buttons; empty where this person may not act


class FilterProblem(NamedTuple):
    """Problem of a filter that cannot be read, with the text around the character that it is about."""

    sentence: str
    before: str
    character: str
    after: str


class View(NamedTuple):
    label: str
    url: str
    is_current: bool


@page(get=lists(Permission.RUNS_READ))
def table(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    filter_problem = None
    found: paging.Page[Row] = paging.Page.model_construct(items=[], next=None)
    hidden = None
    try:
        order = order_of(asked["sort"] or NEWEST_FIRST)
        wanted = _runs(request, asked).select_related(None).select_related("created_by")
        found = paging.page(wanted, rows, sort=order, cursor=asked["cursor"], limit=LIMIT)
        if not _has_trials(asked):
            hidden = trials_among(_runs(request, {**asked, "trials": "1"}), words=asked["filter"])
    except FilterError as error:
        if error.path != "filter":
            return refusal(request, 400, str(error))
        filter_problem = _problem(error, asked["filter"])
    except (BadQuery, paging.BadCursor) as error:
        return refusal(request, 400, str(error))
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    url, shown = reverse("runs"), coloured(request.user, found.items)
    context = {
        **asked,
        "filter_problem": filter_problem,
        "lines": [_line(row, url, may_act=row.run.project_id in may_act_in) for row in shown],
        "may_act": bool(may_act_in),
        "views": [View(label, _url(asked, view=view, cursor=""), asked["view"] == view) for label, view in VIEWS],
        "without_tag": _url(asked, tag="", cursor=""),
        "without_project": _url(asked, project="", cursor=""),
        "sorts": {name: _sort(asked, name) for name in SORTED},
        "next_url": _url(asked, cursor=found.next) if found.next else "",
        "first_url": _url(asked, cursor="") if asked["cursor"] else "",
        "kept": [(name, asked[name]) for name in ("view", "tag", "project", "sort", "trials") if asked[name]],
        "is_filtered": any(asked[name] for name in ("view", "filter", "tag", "project")),
        "fragment_url": _url(asked, fragment="table"),
        "hidden": hidden,
        "trials_url": _url(asked, trials="1", cursor=""),
        "no_trials_url": _url(asked, trials="", cursor="") if asked["trials"] == "1" else "",
        "csv_url": reverse("runs-csv") + _url(asked, cursor=""),
    }
    return show(request, "runs/table.html", context, fragments={"table": "runs/_table.html"})


@page(get=lists(Permission.RUNS_READ))
def export(request: HttpRequest) -> HttpResponse:
    """The runs that the table shows, on all its pages, as CSV."""
    asked = _asked(request)
    try:
        order, runs = order_of(asked["sort"] or NEWEST_FIRST), _runs(request, asked)
    except (BadQuery, FilterError) as error:
        return refusal(request, 400, str(error))
    keys = [key for _, key in paging.places(runs, order, None, MAX_RUNS + 1)]
    answer = HttpResponse(as_csv(keys[:MAX_RUNS]), content_type="text/csv; charset=utf-8")
    name = f"runs-first-{MAX_RUNS}.csv" if len(keys) > MAX_RUNS else "runs.csv"
    answer["Content-Disposition"] = content_disposition_header(True, name)
    answer["Cache-Control"] = "no-store"
    return answer


def _line(row: Row, runs_url: str, *, may_act: bool) -> RunLine:
    run = row.run
    tags = [(tag, f"{runs_url}?{urlencode({'tag': tag})}") for tag in run.tags[:MAX_TAGS]]
    return RunLine(row, run_url(run.pk), tags, max(0, len(run.tags) - MAX_TAGS), row_actions(run) if may_act else "")


def _asked(request: HttpRequest) -> dict[str, str]:
    asked = {name: request.GET.get(name, "").strip()[:200] for name in ASKED}
    # Without its spaces in front nobody would find the character that an error names; `q` was the field's old name.
    text = request.GET.get("filter") or request.GET.get("q", "")
    return {**asked, "filter": text[: MAX_LENGTH + 1]}


def _problem(error: FilterError, text: str) -> FilterProblem:
    at = error.position
    before, after = text[:at], text[at + 1 :]
    return FilterProblem(
        error.message,
        before if len(before) <= AROUND else f"…{before[-AROUND:]}",
        text[at : at + 1],
        after if len(after) <= AROUND else f"{after[:AROUND]}…",
    )


def _has_trials(asked: dict[str, str]) -> bool:
    return asked["trials"] == "1" or asked["tag"].startswith(OF_SWEEP)


def _runs(request: HttpRequest, asked: dict[str, str]) -> QuerySet[Run]:
    return find_runs(
        request.user,
        status=statuses_named(asked["view"]) if asked["view"] not in ("", "archived") else (),
        is_archived=asked["view"] == "archived",
        project=asked["project"],
        tags=[asked["tag"]] if asked["tag"] else (),
        fitting=asked["filter"],
        has_trials=_has_trials(asked),
    )


def _url(asked: dict[str, str], **changes: str) -> str:
    query = {name: value for name, value in {**asked, **changes}.items() if value}
    return f"?{urlencode(query)}"


def _sort(asked: dict[str, str], name: str) -> dict[str, str]:
    """Return where a click on the column's head leads, and how it is sorted now."""
    now = asked["sort"] or NEWEST_FIRST
    state = "descending" if now == f"-{name}" else "ascending" if now == name else "none"
    wanted = name if state == "descending" else f"-{name}" if state == "ascending" else name
    return {"url": _url(asked, sort=wanted, cursor=""), "state": state}


# The buttons at the end of a row in the table of runs.
#
# Runs that offer the same buttons differ by id and name alone, so the buttons are drawn once and then filled in.


def row_actions(run: Run) -> SafeString:
    drawn = _drawn(offers_of(run))
    return mark_safe(drawn.replace(ID, run.pk).replace(NAME, escape(run.name)))  # the name last: it may hold any text


@cache
def _drawn(offers: Offers) -> str:
    return render_to_string("runs/_row_actions.html", {"offers": offers, "run_id": ID, "name": NAME})


# The table of runs as a file: the same runs in the same order, with their specs' fields as columns.


def as_csv(keys: Sequence[str]) -> str:
    """Return a line for each of the runs."""
    paths = _paths(keys)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    metrics = [f"{name} {statistic}" for name in METRICS for statistic in STATISTICS]
    own = [*FACTS, "tags", *metrics]
    writer.writerow([*own, *(_text(f"spec {path}" if path in own else path) for path in paths)])
    for some in _in_parts(keys):
        for document in run_documents(some):
            writer.writerow([_text(cell) for cell in _cells(document, paths)])
    return out.getvalue()


def _paths(keys: Sequence[str]) -> list[str]:
    """The first MAX_FIELDS of the fields that any of the specs has."""
    found: dict[str, None] = {}
    for some in _in_parts(keys):
        found.update(dict.fromkeys(path for run in some for path in fields_of(run.spec)))
        if len(found) >= MAX_FIELDS:
            break
    return list(found)[:MAX_FIELDS]


def _in_parts(keys: Sequence[str]) -> Iterator[Sequence[Run]]:
    runs = Run.objects.select_related("project", "cluster", "created_by")
    for first in range(0, len(keys), RUNS_AT_ONCE):
        some = keys[first : first + RUNS_AT_ONCE]
        known = runs.in_bulk(some)
        yield [known[key] for key in some if key in known]


def _cells(document: Mapping[str, Any], paths: Sequence[str]) -> Iterator[Any]:
    yield from (document[name] for name in FACTS)
    yield " ".join(document["tags"])
    for name in METRICS:
        yield from (document["summary"].get(name, {}).get(statistic) for statistic in STATISTICS)
    fields = fields_of(document["spec"])
    yield from (fields.get(path) for path in paths)


def _text(cell: Any) -> Any:
    """Keep a spreadsheet from running a text as a formula; a number may be negative."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Buttons of a run, and of many selected runs: each is one call of an action.


class RunVerb(NamedTuple):
    action: Callable[..., Run | None]
    sentence: str  # {name} is the run's
    undo: str = ""  # the verb that takes it back
    leads_to: str = ""  # "result": the run that came of it; "runs": the table, because this run is gone


VERBS = {
    "stop": RunVerb(actions.stop_run, "Stopping {name}."),
    "pause": RunVerb(actions.pause_run, "Pausing {name}."),
    "resume": RunVerb(actions.resume_run, "Resumed {name}: it waits to be placed."),
    "restart": RunVerb(actions.restart_run, "Restarted {name}: it waits to be placed."),
    "again": RunVerb(actions.clone_run, "Launched {name} again, as a new run.", leads_to="result"),
    "archive": RunVerb(actions.archive_run, "Archived {name}.", undo="unarchive"),
    "unarchive": RunVerb(actions.unarchive_run, "Brought {name} back.", undo="archive"),
    "give-up": RunVerb(actions.give_up_run, "Gave up on {name}."),
    "upload-leftovers": RunVerb(
        partial(actions.decide_leftovers, word="upload"), "The files of {name} that were left on nodes are sent."
    ),
    "discard-leftovers": RunVerb(
        partial(actions.decide_leftovers, word="discard"),
        "The files of {name} that were left on nodes are deleted there.",
    ),
    "delete": RunVerb(actions.delete_run, "Deleted {name}.", leads_to="runs"),
}


@page(post=thing(Permission.RUNS_STOP))
def do(request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
    chosen = find(verb)
    run = get_run(request.user, run_id)  # the action asks for what it does: verbs differ in it
    result = chosen.action(actor=request.user, run=run)
    undo = reverse("do", args=(run_id, chosen.undo)) if chosen.undo else ""
    to = ""
    if chosen.leads_to == "result" and result is not None:
        to = reverse("run", args=(result.pk,))
    elif chosen.leads_to == "runs" and request.POST.get("from") != "table":
        to = reverse("runs")
    return answer(request, chosen.sentence.format(name=run.name), undo=undo, to=to)


@page(post=thing(Permission.RUNS_STOP))
def do_many(request: HttpRequest, verb: str) -> HttpResponse:
    """The selected runs (fields ``run``), one by one: what is refused is named, the rest is done. A selection may be
    old: a run of it that is gone, or not this person's to change, keeps nobody from the others."""
    chosen = find(verb)
    user = request.user
    assert isinstance(user, User)
    done, refused = 0, list[actions.Refused | NotFound | Forbidden]()
    for run_id in dict.fromkeys(request.POST.getlist("run")):
        try:
            chosen.action(actor=user, run=get_run(user, run_id))
            done += 1
        except (actions.Refused, NotFound, Forbidden) as error:
            refused.append(error)
    if refused and not done:
        raise refused[0]
    words = f"{verb.capitalize()}: done for {done} {'run' if done == 1 else 'runs'}."
    return answer(request, f"{words} {refused[0]}" if refused else words)


@page(post=thing(Permission.RUNS_ANNOTATE))
def annotate(request: HttpRequest, run_id: str) -> HttpResponse:
    """Save the tags (with commas between them) and the notes."""
    user = request.user
    assert isinstance(user, User)
    run = get_run(request, run_id)
    actions.tag_run(actor=user, run=run, tags=request.POST.get("tags", "").split(","))
    actions.note_run(actor=user, run=run, notes=request.POST.get("notes", ""))
    return answer(request, f"Saved the tags and notes of {run.name}.")


def find(verb: str) -> RunVerb:
    if verb not in VERBS:
        raise Http404(f"runs have no verb {verb!r}")
    return VERBS[verb]

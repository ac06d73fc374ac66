"""The list of sweeps, the page of one, and what its charts fetch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from threading import Lock
from typing import NamedTuple

import msgspec
from django.db.models import Count, Max, Q, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard.pages.shared.badges import Badge, sweep_badge
from dashboard.pages.shared.frame import page, refusal, show
from dashboard.pages.sweeps.columns import columns, labels_of
from dashboard.pages.sweeps.lineage import drawing
from dashboard.pages.sweeps.offers import offers_of
from dashboard.pages.sweeps.trial_lines import trial_lines
from dashboard.pages.sweeps.trial_table import asked_of, find
from runs.api import paging
from runs.api.sweeping.figures import importance_of
from runs.models import Placement, Run, Sweep
from runs.rights.access import NotFound, Permission, can, get_sweep, projects_with
from runs.rights.access.operations import lists, thing
from runs.sweeps.analysis.contour import contour
from runs.sweeps.analysis.slots import Occupation
from runs.sweeps.analysis.trials import COMPLETE, fields_of
from runs.sweeps.population_rows import last_step_of, lineage
from runs.sweeps.reading import SweepSummary, summaries_of, summary_of, sweeps_of, time_of, timed_points, trial_points
from trainyard.contract.statuses import TRIAL_FINAL, SweepStatus, TrialState

MOST = 16  # sweeps; one of ten thousand trials has a third of a megabyte
LIMIT = 50
NEWEST_FIRST = "-created_at"


class SweepLine(NamedTuple):
    """A sweep in the list, or at the head of its page."""

    sweep: SweepSummary
    badge: Badge
    num_ended: int
    counts: list[tuple[str, int]]  # by state, those that there are

    @property
    def is_whole(self) -> bool:
        """Return whether the sweep succeeded with fewer trials than its budget has."""
        return self.sweep.status == SweepStatus.SUCCEEDED and 0 < self.num_ended < self.sweep.trials_total


FRAGMENTS = {"head": "sweeps/_head.html", "trials": "sweeps/_trials.html", "lineage": "sweeps/_lineage.html"}


@page(get=lists(Permission.SWEEPS_READ))
def table(request: HttpRequest) -> HttpResponse:
    words, cursor = request.GET.get("q", "").strip()[:200], request.GET.get("cursor", "")[:200]
    try:
        found = paging.page(
            sweeps_of(request.user, words=words), summaries_of, sort=NEWEST_FIRST, cursor=cursor, limit=LIMIT
        )
    except paging.BadCursor as error:
        return refusal(request, 400, str(error))
    context = {
        "lines": [line_of(one) for one in found.items],
        "q": words,
        "cursor": cursor,
        "next": found.next,
        "may_act": projects_with(request.user, Permission.SWEEPS_LAUNCH).exists(),
    }
    return show(request, "sweeps/table.html", context, fragments={"table": "sweeps/_table.html"})


@page(get=thing(Permission.SWEEPS_READ))
def sweep(request: HttpRequest, sweep_id: str) -> HttpResponse:
    chosen = get_sweep(request, sweep_id)
    fragment = request.GET.get("fragment", "")
    wanted = {fragment} if fragment in FRAGMENTS else {*FRAGMENTS}
    context: dict[str, object] = {"sweep": chosen}
    if "head" in wanted:
        context |= _head(request, chosen)
    if "trials" in wanted:
        context |= _trials(request, chosen)
    if "lineage" in wanted and chosen.parsed.sampler.name == "population":
        labels = labels_of(list(chosen.parsed.space))
        context["lineage"] = drawing(lineage(chosen), labels, last_step_of(chosen))
        context["may_replay"] = can(request.user, chosen.project, Permission.SWEEPS_LAUNCH)
    return show(request, "sweeps/sweep.html", context, fragments=FRAGMENTS)


@page(get=thing(Permission.SWEEPS_READ))
def data(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """The columns that the charts draw."""
    found = columns_json(get_sweep(request, sweep_id), timezone.now())
    answer = HttpResponse(found, content_type="application/json")
    answer["Cache-Control"] = "no-store"
    return answer


@page(get=thing(Permission.SWEEPS_READ))
def trial(request: HttpRequest, sweep_id: str, number: int) -> HttpResponse:
    """Lead to the run of a trial: a bar of the timeline knows its number alone."""
    chosen = get_sweep(request, sweep_id)
    found = chosen.trials.filter(number=number).first()
    if found is None:
        raise NotFound(f"Sweep {chosen.name} has no trial {number}.")
    if found.run_id is None:
        return refusal(request, 409, f"Trial {number} of {chosen.name} has no run.")
    return redirect("run", found.run_id)


@page(get=thing(Permission.SWEEPS_READ))
def fields(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """Return how much each field matters. Where ``isCurrent`` is false, newer figures are being computed; 202 where
    there are none yet."""
    chosen = get_sweep(request, sweep_id)
    found, is_current = importance_of(chosen)
    if found is None:
        answer = _json({"isCurrent": False})
        answer.status_code = 202
        return answer
    labels = labels_of(list(chosen.parsed.space))
    fields = [{**one._asdict(), "label": labels.get(one.path, one.path)} for one in found.fields]
    return _json({**found._asdict(), "fields": fields, "isCurrent": is_current})


@page(get=thing(Permission.SWEEPS_READ))
def surface(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """The objective over the fields ``x`` and ``y``."""
    chosen = get_sweep(request, sweep_id)
    known = {one.path: one for one in fields_of(chosen.parsed.space)}
    across, up = (known.get(request.GET.get(name, "")) for name in ("x", "y"))
    if across is None or up is None or across == up:
        return refusal(request, 422, "A contour needs two different fields of the space, x and y.")
    found = contour(trial_points(chosen, state=COMPLETE), across, up)
    return _json(found._asdict())


def line_of(summary: SweepSummary) -> SweepLine:
    counts = [(state.lower(), num) for state in TrialState if (num := summary.counts.get(state, 0))]
    num_ended = sum(summary.counts.get(state, 0) for state in TRIAL_FINAL)
    return SweepLine(summary, sweep_badge(summary.status), num_ended, counts)


def _head(request: HttpRequest, chosen: Sweep) -> dict[str, object]:
    labels = labels_of(list(chosen.parsed.space))
    summary = summary_of(chosen)
    best = (
        [(labels[path], value) for path, value in summary.best.parameters.items() if path in labels]
        if summary.best
        else []
    )
    return {
        "line": line_of(summary),
        "offers": offers_of(request.user, chosen),
        "best_parameters": best,
        "spec": chosen.parsed,
    }


def _trials(request: HttpRequest, chosen: Sweep) -> Mapping[str, object]:
    asked = asked_of(request.GET)
    found = find(chosen, asked, timezone.now())
    may_act = can(request.user, chosen.project, Permission.SWEEPS_LAUNCH)
    return trial_lines(request.user, chosen, found, asked, may_act=may_act)


def _json(document: object) -> JsonResponse:
    answer = JsonResponse(document, safe=False)
    answer["Cache-Control"] = "no-store"
    return answer


# The columns of a sweep as JSON. Of a sweep in which nothing runs they are kept in this process, until a trial or a
# run of it changes: ten thousand trials take a quarter of a second to read.


class Version(NamedTuple):
    """Version of a sweep's document: it changes as soon as something of the sweep does."""

    cursor: int  # counts changes of the sweep and its trials
    changed_at: datetime | None  # the last change of any of its runs
    num_runs: int


_lock = Lock()
_kept: OrderedDict[str, tuple[Version, bytes]] = OrderedDict()


def columns_json(sweep: Sweep, now: datetime) -> bytes:
    version, num_live = _version_of(sweep)  # read first: what changes meanwhile makes it an older one
    with _lock:
        before = _kept.get(sweep.pk)
    if before is not None and before[0] == version and not num_live:
        return before[1]
    bars = occupations(sweep, now)
    found = msgspec.json.encode(columns(sweep.parsed, sweep.base_spec, timed_points(sweep, now), bars))
    if sweep.ended_at is not None and not num_live and all(one.end < now.timestamp() for one in bars):
        _keep(sweep.pk, version, found)
    return found


def _version_of(sweep: Sweep) -> tuple[Version, int]:
    """Return the version, and how many of the sweep's runs go on: what is drawn of them grows with the time."""
    of_runs = Run.objects.filter(trial__sweep=sweep).order_by().aggregate(
        changed=Max("changed_at"), num=Count("pk"), live=Count("pk", filter=Q(ended_at=None))
    )  # fmt: skip
    return Version(sweep.cursor, of_runs["changed"], of_runs["num"]), of_runs["live"]


def _keep(sweep_id: str, version: Version, found: bytes) -> None:
    with _lock:
        _kept[sweep_id] = version, found
        _kept.move_to_end(sweep_id)
        while len(_kept) > MOST:
            _kept.popitem(last=False)


def occupations(sweep: Sweep, now: datetime) -> list[Occupation]:
    """Return the slots that the trials' runs hold and held, with one query for any number of trials."""
    start, end = (Cast(f"attempt__{name}", TextField()) for name in ("created_at", "ended_at"))
    rows = Placement.objects.filter(attempt__run__trial__sweep=sweep).annotate(start=start, end=end)
    found = rows.values_list("attempt__run__trial__number", "node__name", "num_ranks", "start", "end")
    return [
        Occupation(number, node, num, (time_of(start) or now).timestamp(), (time_of(end) or now).timestamp())
        for number, node, num, start, end in found.iterator(chunk_size=5_000)
    ]

"""The list of sweeps, the page of one, and what its charts fetch."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import NamedTuple

import msgspec
import numpy as np
from django.db.models import Count, Max, Q, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard.pages.shared import drawn
from dashboard.pages.shared.badges import Badge, badge, trial_badge
from dashboard.pages.shared.drawn import titled
from dashboard.pages.shared.frame import fresh_json, page, refusal, show
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.sheet import Kind, Sheet
from dashboard.pages.shared.still import StillLine, still_chart
from dashboard.pages.sweeps.columns import columns, labels_of
from dashboard.pages.sweeps.lineage import drawing
from dashboard.pages.sweeps.trial_lines import TrialTable
from dashboard.pages.sweeps.verbs import offers_of
from runs.api.sweeping.figures import importance_of
from runs.models import Placement, Run, Sweep
from runs.records.points.read import Curve
from runs.rights.access import Permission, can, get_sweep, or_not_found, projects_with
from runs.rights.access.operations import lists, thing
from runs.sweeps.analysis.best import COMPLETE, fields_of
from runs.sweeps.analysis.contour import contour
from runs.sweeps.analysis.slots import Occupation
from runs.sweeps.population_rows import last_step_of, lineage
from runs.sweeps.reading import SweepSummary, summaries_of, summary_of, sweeps_of, time_of, timed_points, trial_points
from runs.sweeps.scaling import scaling_of
from trainyard.contract.answers.sweeps import ScalingSize
from trainyard.contract.statuses import TRIAL_FINAL, SweepStatus, TrialState
from trainyard.formats.figures import number

MOST = 16  # sweeps; one of ten thousand trials has a third of a megabyte


class SweepLine(NamedTuple):
    """A sweep in the list, or at the head of its page."""

    sweep: SweepSummary
    badge: Badge
    num_ended: int
    counts: list[tuple[str, int]]  # by state, those that there are

    @property
    def row(self) -> Sweep:
        return self.sweep.row

    @property
    def is_whole(self) -> bool:
        """Return whether the sweep succeeded with fewer trials than its budget has."""
        return self.row.status == SweepStatus.SUCCEEDED and 0 < self.num_ended < self.sweep.spec.budget.trials


FRAGMENTS = {"head": "sweeps/_head.html", "lineage": "sweeps/_lineage.html", "scaling": "sweeps/_scaling.html"}


@page(get=lists(Permission.SWEEPS_READ))
def table(request: HttpRequest) -> HttpResponse:
    sheet = Sheet(request, "Sweeps", "sweep", KINDS, Sort("created", True))
    found = sweeps_of(request.user, words=sheet.words)
    may_act = projects_with(request.user, Permission.SWEEPS_LAUNCH).exists()
    context = {"title": "Sweeps", "news": "sweep ping", "may_act": may_act}
    keys = found.order_by(*sheet.order, "pk").values_list("pk", flat=True)
    return sheet.show("sweeps/table.html", keys, _rows, context)


def _rows(keys: Sequence[str]) -> list[tuple[GridRow, SweepLine]]:
    known = Sweep.objects.select_related("project", "created_by").in_bulk(keys)
    found = summaries_of([known[key] for key in keys if key in known])
    return [(GridRow(one.row.pk, one.row.name, ()), line_of(one)) for one in found]


def _progress(line: SweepLine) -> str:
    return drawn.progress(line.num_ended, line.sweep.spec.budget.trials, line.row.name, line.badge.colour)


def _best(line: SweepLine) -> str:
    best = line.sweep.best
    if best is None:
        return drawn.NOTHING
    return f'<b>{number(best.value)}</b> <span class="muted xs">trial {best.number}</span>'


def _objectives(line: SweepLine) -> str:
    goals = line.sweep.spec.objectives
    return drawn.clipped(", ".join(f"{one.metric} {one.direction}" for one in goals))


def _search(line: SweepLine) -> str:
    spec = line.sweep.spec
    return drawn.clipped(", ".join(name for name in (spec.sampler.name, spec.pruner.name) if name != "none"))


KINDS: dict[str, Kind[SweepLine]] = {
    "name": Kind("Name", 180, lambda one: drawn.opener("sweep", one.row.pk, one.row.name), sort="name", phone=""),
    "status": Kind("Status", 116, lambda one: titled(one.badge, one.row.reason_sentence), sort="status", phone="end"),
    "trials": Kind("Trials", 160, _progress, phone="wide"),
    "best": Kind("Best", 130, _best, is_number=True, phone=""),
    "objective": Kind("Objective", 160, _objectives),
    "search": Kind("Search", 110, _search),
    "project": Kind("Project", 110, lambda line: drawn.clipped(line.row.project.name), sort="project__name"),
    "user": Kind("Who", 90, lambda one: drawn.clipped(getattr(one.row.created_by, "username", "–")),
                 sort="created_by__username"),
    "created": Kind("When", 92, lambda line: f'<span class="muted">{drawn.age(line.row.created_at)}</span>',
                    "created_at", phone=""),
}  # fmt: skip


@page(get=thing(Permission.SWEEPS_READ))
def sweep(request: HttpRequest, sweep_id: str) -> HttpResponse:
    chosen = get_sweep(request, sweep_id)
    table = TrialTable(request, chosen)
    if answer := table.sheet.rows_answer(table.keys, table.rows):
        return answer
    fragment = request.GET.get("fragment", "")
    wanted = {fragment} if fragment in FRAGMENTS else {*FRAGMENTS}
    context: dict[str, object] = {"sweep": chosen}
    if "head" in wanted:
        context |= _head(request, chosen)
    if fragment not in FRAGMENTS:
        context |= table.context()
    if "scaling" in wanted and (found := scaling_of(chosen)) is not None:
        context |= {"scaling": found, "speed_up": _speed_up_chart(found["sizes"])}
        context["sizes"] = [(one, one["state"] and trial_badge(one["state"])) for one in found["sizes"]]
    if "lineage" in wanted and chosen.parsed.sampler.name == "population":
        context["lineage"] = drawing(lineage(chosen), labels_of(list(chosen.parsed.space)), last_step_of(chosen))
        context["may_replay"] = can(request.user, chosen.project, Permission.SWEEPS_LAUNCH)
    return show(request, "sweeps/sweep.html", context, fragments=FRAGMENTS)


def _speed_up_chart(sizes: Sequence[ScalingSize]) -> str:
    first = next((one["ranks"] for one in sizes if one["speed_up"]), sizes[0]["ranks"])
    lines = {
        "measured": [(one["ranks"], one["speed_up"]) for one in sizes if one["speed_up"]],
        "predicted": [(one["ranks"], one["predicted"]["speed_up"]) for one in sizes if one["predicted"]],
        "ideal": [(one["ranks"], one["ranks"] / first) for one in sizes],
    }
    drawn = []
    for colour, (name, points) in enumerate(lines.items()):
        steps, values = np.array(points, dtype=float).reshape(-1, 2).T
        drawn.append(StillLine(colour, name, [Curve("", name, {}, 0, "raw", {"step": steps, "value": values})]))
    return still_chart("Speed-up", drawn, over="ranks")


@page(get=thing(Permission.SWEEPS_READ))
def data(request: HttpRequest, sweep_id: str) -> HttpResponse:
    document = columns_json(get_sweep(request, sweep_id), timezone.now())
    return HttpResponse(document, content_type="application/json", headers={"Cache-Control": "no-store"})


@page(get=thing(Permission.SWEEPS_READ))
def trial(request: HttpRequest, sweep_id: str, number: int) -> HttpResponse:
    """Lead to the run of a trial: a bar of the timeline knows its number alone."""
    chosen = get_sweep(request, sweep_id)
    found = or_not_found(chosen.trials.filter(number=number).first(), f"Sweep {chosen.name} has no trial {number}.")
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
        return fresh_json({"isCurrent": False}, status=202)
    labels = labels_of(list(chosen.parsed.space))
    fields = [{**one, "label": labels.get(one["path"], one["path"])} for one in found["fields"]]
    return fresh_json({**found, "fields": fields, "isCurrent": is_current})


@page(get=thing(Permission.SWEEPS_READ))
def surface(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """The objective over the fields ``x`` and ``y``."""
    chosen = get_sweep(request, sweep_id)
    known = {one.path: one for one in fields_of(chosen.parsed.space)}
    across, up = (known.get(request.GET.get(name, "")) for name in ("x", "y"))
    if across is None or up is None or across == up:
        return refusal(request, 422, "A contour needs two different fields of the space, x and y.")
    return fresh_json(contour(trial_points(chosen, state=COMPLETE), across, up)._asdict())


def line_of(summary: SweepSummary) -> SweepLine:
    counts = [(state.lower(), num) for state in TrialState if (num := summary.counts.get(state, 0))]
    num_ended = sum(summary.counts.get(state, 0) for state in TRIAL_FINAL)
    return SweepLine(summary, badge(summary.row.status), num_ended, counts)


def _head(request: HttpRequest, chosen: Sweep) -> dict[str, object]:
    labels = labels_of(list(chosen.parsed.space))
    summary = summary_of(chosen)
    best = summary.best.parameters if summary.best else {}
    return {
        "line": line_of(summary),
        "offers": offers_of(request.user, chosen),
        "may_share": can(request.user, chosen.project, Permission.RUNS_SHARE),
        "best_parameters": [(labels[path], value) for path, value in best.items() if path in labels],
        "spec": chosen.parsed,
    }


# The columns of a sweep as JSON. Of a sweep in which nothing runs they are kept in this process, until a trial or a
# run of it changes: ten thousand trials take a quarter of a second to read.


# Of a sweep's document: how many changes of the sweep and its trials, the last of any of its runs, and how many runs.
Version = tuple[int, datetime | None, int]
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
        with _lock:
            _kept[sweep.pk] = version, found
            _kept.move_to_end(sweep.pk)
            while len(_kept) > MOST:
                _kept.popitem(last=False)
    return found


def _version_of(sweep: Sweep) -> tuple[Version, int]:
    """Return the version, and how many of the sweep's runs go on: what is drawn of them grows with the time."""
    of_runs = Run.objects.filter(trial__sweep=sweep).order_by().aggregate(
        changed=Max("changed_at"), num=Count("pk"), live=Count("pk", filter=Q(ended_at=None))
    )  # fmt: skip
    return (sweep.cursor, of_runs["changed"], of_runs["num"]), of_runs["live"]


def occupations(sweep: Sweep, now: datetime) -> list[Occupation]:
    """Return the slots that the trials' runs hold and held, with one query for any number of trials."""
    start, end = (Cast(f"attempt__{name}", TextField()) for name in ("created_at", "ended_at"))
    rows = Placement.objects.filter(attempt__run__trial__sweep=sweep).annotate(start=start, end=end)
    found = rows.values_list("attempt__run__trial__number", "node__name", "num_ranks", "start", "end")
    return [
        Occupation(number, node, num, (time_of(start) or now).timestamp(), (time_of(end) or now).timestamp())
        for number, node, num, start, end in found.iterator(chunk_size=5_000)
    ]

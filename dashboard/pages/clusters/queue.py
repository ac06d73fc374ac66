"""The queue of a cluster: who comes next, when and why, what projects hold, and what nodes did and are to do."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil, inf
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard.pages.clusters.boxes import ANOTHER
from dashboard.pages.shared.frame import is_script, page, person, problems_of, show
from dashboard.pages.shared.run_colours import colours_for
from runs import actions
from runs.models import Attempt, Cluster, HeldSlot, Placement, Run
from runs.placing.ends import History, ends_of, lasts_of
from runs.placing.policies import policy_of
from runs.placing.queue import outcomes_of, priority_beside, queue_of, requests_of, waiting_runs
from runs.placing.spans import SHORT_S, Span
from runs.placing.usage import standings_of
from runs.rights import access
from runs.rights.access import Permission, Someone, can, get_cluster, get_run, nodes_of, visible_projects, visible_runs
from runs.rights.access.operations import machine, thing
from runs.values.status import Status
from trainyard.formats.figures import duration
from trainyard.formats.words import listed
from trainyard.grouping import grouped

MOST_ROWS, MOST_NODES, MOST_DRAWN, MOST_BARS = 300, 50, 12, 500
SIDE_S = 6 * 3600  # so long before now is drawn, and so long after it
FINE, LINE, BAND, GAP = 16, 18, 22, 8  # slots up to which each is a line; pixels of a line, a node and between nodes
UNKNOWN, LONGEST = Span(0, 0, 3600), timedelta(days=30)  # ended attempts that began before are not looked for


@page(get=machine(Permission.CLUSTERS_READ))
def queue(request: HttpRequest, cluster_id: str) -> HttpResponse:
    return _show(request, get_cluster(request, cluster_id))


@page(post=thing(Permission.RUNS_LAUNCH))
def prioritize(request: HttpRequest, run_id: str) -> HttpResponse:
    """Give a run that waits another priority, or the one that brings it past another run (``beside``); what was refused
    stands in its row, as it was typed."""
    run, beside = get_run(request, run_id), request.POST.get("beside")
    cluster = get_cluster(request.user, run.cluster_id or "")
    typed = request.POST.get("priority", "").strip()[:20]
    try:
        if beside:
            other = get_run(request.user, beside)
            if (found := priority_beside(cluster, run.pk, other.pk, timezone.now())) is None:
                why = f"No priority brings it past {other.name}: first comes {policy_of(cluster.scheduling).label}."
                raise ValidationError({"priority": why})
            typed = str(found)
        actions.set_priority(actor=person(request), run=run, priority=int(typed) if typed.isdecimal() else typed)
    except ValidationError as error:
        refused = {"run": run.pk, "typed": typed, "problem": problems_of(error)["priority"]}
        return _show(request, cluster, status=422, refused=refused)
    return _show(request, cluster, changed=run) if is_script(request) else redirect("cluster-queue", cluster.name)


def _show(request: HttpRequest, cluster: Cluster, *, status: int = 200, **context: object) -> HttpResponse:
    user, now = request.user, timezone.now()
    queued, late = queue_of(user, cluster, now), now.timestamp() + SIDE_S
    may_change = {project.pk: can(user, project, Permission.RUNS_LAUNCH) for project in {q.run.project for q in queued}}
    places = [0, *(one.place for one in queued[:MOST_ROWS])]
    seen = set(visible_projects(user).values_list("name", flat=True))
    standings = sorted(standings_of(cluster, now, reads_used=True).items())
    long = [one for one in outcomes_of(cluster) if one.came > SHORT_S]
    mine = visible_runs(user).filter(cluster=cluster, status=Status.RUNNING).order_by().values("pk")
    around = {
        "cluster": cluster,
        "outcomes": (len(long), sum(one.is_near for one in long), sum(one.is_inside for one in long)),
        "rows": [  # of other projects stands just before each how many runs there are
            (one, one.place - before - 1, may_change[one.run.project_id])
            for one, before in zip(queued, places[:-1], strict=False)
        ],
        "num_waiting": (num_waiting := waiting_runs(cluster).count()),
        "num_more": num_waiting - places[-1],
        "policy": policy_of(cluster.scheduling),
        "may_save": access.can_manage_cluster(user, cluster),
        "shares": [(name, one, one.used / 3600) for name, one in standings if name in seen],
        "num_others": sum(name not in seen for name, _ in standings),
        "idle": Attempt.objects.filter(run__in=mine, ended_at=None, idle__isnull=False).select_related("run"),
        "now": now.timestamp(),
        **_over_time(user, cluster, [q.run for q in queued if (at := q.run.start_prediction) and at.low < late], now),
    }
    fragments = {"live": "nodes/_queue.html", "rows": "nodes/_queue_table.html"}
    return show(request, "nodes/queue.html", {**around, **context}, fragments=fragments, status=status)


# The drawing over time: parts of its bars have a look, and begin and width in percent of the time.


class Band(NamedTuple):
    name: str
    slots: int
    top: int
    height: int


class Bar(NamedTuple):
    run: Run | None  # None: of a project that this person does not see
    words: str
    colour: int
    top: float
    height: float
    parts: list[tuple[str, float, float]]

    @property
    def width(self) -> float:
        return sum(width for _, _, width in self.parts)


def _over_time(user: Someone, cluster: Cluster, waiting: list[Run], now: datetime) -> dict[str, object]:
    nodes, top, bands = list(nodes_of([cluster])[:MOST_NODES]), 0, {}
    is_fine = sum(node.slots for node in nodes) <= FINE
    for node in nodes:
        bands[node.pk] = Band(node.name, node.slots, top, LINE * node.slots if is_fine else BAND)
        top += bands[node.pk].height + GAP
    history, colours = History(cluster, now), colours_for(user, waiting)
    bars = list(_held(user, ends_of(cluster, now, history), bands, now))
    lasts = lasts_of(requests_of(waiting_runs(cluster).filter(pk__in=[run.pk for run in waiting])), history)
    for line, run in enumerate(waiting[:MOST_DRAWN]):
        if start := run.start_prediction:
            low, at, high = (max(0, one - now.timestamp()) for one in (start.low, start.at, start.high))
            parts = _parts(("fade-in", low, at), *_until(at, lasts.get(run.pk, UNKNOWN)))
            words = f"{run.name}: waits, expected to start {_about(Span(low, at, high), now)}"
            bars.append(Bar(run, words, colours[run.pk] + 1, top + 1, LINE - 2, parts))
            bands[run.pk] = Band("" if line else "Waiting", 0, top, LINE)
            top += LINE
    drawn = [one for one in bars if one.parts]
    return {"bands": list(bands.values()), "is_fine": is_fine, "bars": drawn, "height": top}


def _held(user: Someone, ends: Mapping[str, Span], bands: Mapping[str, Band], now: datetime) -> Iterator[Bar]:
    """Yield what held slots of the nodes. Which slots an attempt had is known while it has them; after that it is drawn
    on any that were free then."""
    ended = Q(attempt__ended_at__gt=now - timedelta(seconds=SIDE_S), attempt__created_at__gt=now - LONGEST)
    rows = Placement.objects.filter(Q(attempt__ended_at=None) | ended, node__in=bands)
    names = ("run", "run__slot_shares", "created_at", "ended_at")
    columns = rows.values_list("pk", "node", "num_ranks", *(f"attempt__{name}" for name in names))
    held = list(columns.order_by(F("attempt__ended_at").desc(nulls_first=True))[:MOST_BARS])
    slots = grouped(HeldSlot.objects.filter(node__in=bands).order_by("index").values_list("placement", "index"))
    runs = visible_runs(user).filter(pk__in={row[3] for row in held}).defer("spec", "estimate").in_bulk()
    colours = colours_for(user, list(runs.values()))
    taken = {node: [inf] * band.slots for node, band in bands.items()}  # since when
    for pk, node, ranks, run_id, shares, created_at, ended_at in held:
        band, lanes, run, own = bands[node], taken[node], runs.get(run_id), slots.get(pk, [])
        begin, end = ((one - now).total_seconds() for one in (created_at, ended_at or now))
        wide, each = min(ceil(ranks / shares), band.slots), band.height / band.slots
        free = (one for one in range(band.slots - wide + 1) if min(lanes[one : one + wide]) >= end)
        first = own[0] if own else next(free, 0)
        lanes[first : first + wide] = [begin] * wide
        which = listed([str(one) for one in own], at_most=16)
        which = f"slot{'s'[: wide > 1]} {which}" if own else f"{wide} of {band.slots} slots"
        words = f"{run.name if run else ANOTHER}: {which} of {band.name}, {duration(end - begin)}, measured from "
        words += _utc(created_at.timestamp()) + (f" to {_utc(ended_at.timestamp())}" if ended_at else "")
        parts = [("past" if ended_at else "live", begin, end)]
        if run is not None and ended_at is None:
            parts += _until(0, span := ends.get(run_id, UNKNOWN))
            words += f"; expected to end {_about(span, now)}" if run_id in ends else "; nobody can say when it ends"
        yield Bar(run, words, colours[run_id] + 1 if run else 0, band.top + each * first, each * wide, _parts(*parts))


def _about(span: Span, now: datetime) -> str:
    low, at, high = (_utc(now.timestamp() + one) for one in span[:3])
    return f"about {at} ({low} to {high})"


def _utc(seconds: float) -> str:
    """Return a time as the page's script finds it in words, to write it as the reader's clock shows it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _until(begin: float, span: Span) -> list[tuple[str, float, float]]:
    return [("ahead", begin, begin + span.low), ("fade-out", begin + span.low, begin + span.high)]


def _parts(*spans: tuple[str, float, float]) -> list[tuple[str, float, float]]:
    """Place spans, which are in seconds from now."""
    found = [(look, _percent(begin), _percent(end)) for look, begin, end in spans]
    return [(look, begin, end - begin) for look, begin, end in found if end > begin]


def _percent(seconds: float) -> float:
    return 50 + 50 * min(max(seconds / SIDE_S, -1), 1)

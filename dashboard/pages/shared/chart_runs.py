"""Runs as the charts know them: what stands beside their points, in two queries for any number of runs."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

from django.db.models import Min, Q
from django.http import HttpRequest

from dashboard.pages.shared import numbers
from dashboard.pages.shared.run_colours import NUM_COLOURS, colour_of
from runs.models import Attempt, Event, Run, User, Workspace
from runs.records.media import read
from runs.records.metrics.models import Checkpoint, Series
from runs.records.metrics.progress import stated_axes, telemetry
from runs.records.points.read import NamedSeries, names_of
from runs.rights.access import Permission, can
from runs.values.columns import MetricAlarm
from runs.values.run_config import NOTE
from trainyard.contract.base import SpecDocument
from trainyard.formats.parameters import leaves
from trainyard.grouping import grouped

TOLD = ("restarted", "restored")  # of what happens between two attempts, what people ask about
# Of what else happens, what may explain a line.
MARKED = (NOTE, "resizing", "paused", "resumed", "hang-found", "hang-over", "straggler", "log-rule", "rewind-refused")
FEW, MAX_MARKS = 4, 200  # runs; marks of each kind
MAX_FIELDS = 400
MAX_SERIES = 1_000
MANY = 100  # runs: of more the charts draw groups, and need no list of every series
MAX_CHARS = 120
ITS_OWN = ("name", "project", "local.id")  # of a spec, what says nothing about how it trains


class ChartAttempt(TypedDict):
    fence: int
    number: int
    cause: str  # why it began, where it is not the first


class ChartAlarm(TypedDict):
    """A value that broke a rule, where charts mark it."""

    metric: str
    attempt: int  # its fence
    step: int
    time: float
    sentence: str


class ChartMark(TypedDict):
    """What happened to a run, where charts mark it. ``step`` is None where only the time is known."""

    step: int | None
    time: float
    sentence: str
    kind: str  # note, checkpoint or event


class ChartRun(TypedDict):
    """A run as the scripts of the charts read it."""

    id: str
    name: str
    start: float  # the zero of its relative time, Unix seconds
    status: str
    colour: int
    isLive: bool
    fields: dict[str, str]
    attempts: list[ChartAttempt]
    alarms: list[ChartAlarm]
    marks: list[ChartMark]


class Charts(TypedDict):
    runs: list[ChartRun]
    project_id: str
    state: dict[str, object]  # a browser's, as it saved it
    layout: dict[str, object]  # the project's
    may_lay_out: bool  # for the project
    axes: dict[str, str]  # over which other series one is drawn, as the scripts say
    series: list[NamedSeries]


def charts_context(user: User, runs: Sequence[Run], *, colours: Mapping[str, int] | None = None) -> dict[str, Charts]:
    """Return what ``runs/_charts.html`` needs: the runs, and how this person looks at the project's charts.

    The project is the first run's. ``colours`` are what the runs have by id where nobody chose others.
    """
    project_id = runs[0].project_id if runs else ""
    rows = Workspace.objects.filter(Q(user=user) | Q(user=None), project_id=project_id)
    kept = {one.user_id: one.state for one in rows}
    return {
        "charts": {
            "runs": chart_runs(runs, colours),
            "project_id": project_id,
            "state": kept.get(user.pk, {}),
            "layout": kept.get(None, {}),
            "may_lay_out": bool(runs) and can(user, runs[0].project, Permission.RUNS_ANNOTATE),
            "series": _series(runs),
            "axes": stated_axes([run.pk for run in runs]),
        }
    }


def _series(runs: Sequence[Run]) -> list[NamedSeries]:
    """Return the first series, so that a page has cards to draw before it has asked; it asks for all of them. Of very
    many runs each name has one, and the page asks for no more."""
    if len(runs) > MANY:
        named = Series.objects.filter(run_id__in=[run.pk for run in runs]).order_by("name").values_list("name")
        return [{"run": run, "name": name, "labels": {}} for name, run in named.annotate(Min("run_id"))[:MAX_SERIES]]
    return names_of([run.pk for run in runs], limit=MAX_SERIES)


def chart_runs(runs: Sequence[Run], colours: Mapping[str, int] | None = None) -> list[ChartRun]:
    """Return of each run its name, the zero of its relative time (Unix seconds), status, colour (that of ``colours``
    where it has one), the fields of its spec as short texts, and its attempts with why each began."""
    marks, told = _marks(runs), Event.objects.filter(run__in=runs, code__in=TOLD).order_by("at", "pk")
    events = defaultdict(list, grouped((one.run_id, one) for one in told))
    in_order = Attempt.objects.filter(run__in=runs).order_by("number")
    attempts = defaultdict(list, grouped((one.run_id, one) for one in in_order))
    return [
        {
            "id": run.pk,
            "name": run.name,
            "start": (run.started_at or run.created_at).timestamp(),
            "status": run.status.lower(),
            "colour": (colours or {}).get(run.pk, colour_of(run.pk)),
            "isLive": run.is_live,
            "fields": fields_of(run.spec),
            "attempts": _attempts(attempts[run.pk], events[run.pk]),
            "alarms": [_alarm(attempt, one) for attempt in attempts[run.pk] for one in attempt.known_alarms],
            "marks": marks[run.pk],
        }
        for run in runs
    ]


def _alarm(attempt: Attempt, one: MetricAlarm) -> ChartAlarm:
    return {"metric": one.metric, "attempt": attempt.fence, "step": one.first_step, "time": one.at,
            "sentence": one.sentence}  # fmt: skip


def _marks(runs: Sequence[Run]) -> defaultdict[str, list[ChartMark]]:
    """Return notes at steps, checkpoints, and what else happened; of more runs than a few nothing: nobody would tell
    whose they are."""
    found: defaultdict[str, list[ChartMark]] = defaultdict(list)
    if len(runs) > FEW:
        return found
    ids = [run.pk for run in runs]
    events = Event.objects.filter(run_id__in=ids, code__in=MARKED).select_related("actor").order_by("-at", "-pk")
    for one in events[:MAX_MARKS]:
        kind, step = "note" if one.code == NOTE else "event", one.data.get("step")
        words = f"{one.actor or 'Somebody'}: {one.sentence}" if kind == "note" else one.sentence
        found[one.run_id].append({"step": step, "time": one.at.timestamp(), "sentence": words, "kind": kind})
    for saved in Checkpoint.objects.sound().filter(run_id__in=ids).order_by("-step")[:MAX_MARKS]:
        words = f"Checkpoint of step {saved.step:,}"
        found[saved.run_id].append({"step": saved.step, "time": saved.at, "sentence": words, "kind": "checkpoint"})
    return found


def fields_of(spec: SpecDocument) -> dict[str, str]:
    """Return the leaves of a spec by their paths: ``{"train.batch_size": "32"}``; no more than people would look at."""
    found: dict[str, str] = {}
    for path, value in leaves(spec):
        if len(found) == MAX_FIELDS:
            break
        if path not in ITS_OWN:
            found[path[:MAX_CHARS]] = _short(value)
    return found


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = ", ".join(map(_short, value))
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def _attempts(attempts: Sequence[Attempt], events: Sequence[Event]) -> list[ChartAttempt]:
    causes = ["", *(_cause(old, new, events) for old, new in pairwise(attempts))]
    pairs = zip(attempts, causes, strict=False)  # no attempts: one cause too many
    return [{"fence": one.fence, "number": one.number, "cause": cause} for one, cause in pairs]


def _cause(old: Attempt, new: Attempt, events: Sequence[Event]) -> str:
    """Return why an attempt that is not the first began, and what it went on from, in sentences."""
    between = [one.sentence for one in events if one.attempt_id is None and old.created_at <= one.at <= new.created_at]
    after = [one.sentence for one in events if one.attempt_id == new.pk]
    why = [f"Attempt {old.number} ended: {old.reason_sentence}"] if old.reason_sentence else []
    return " ".join([f"Attempt {new.number} began.", *why, *between, *after[:1]])


MAX_RUNS, MAX_ROWS = 20, 40


class Band(NamedTuple):
    """A stretch from a step and a moment (Unix seconds) up to others; ``colour`` counts from 1."""

    text: str
    words: str
    colour: int
    first: int
    end: int
    began_at: float
    ended_at: float


class BandRow(NamedTuple):
    """What one run logged; ``started_at`` is the zero of its relative time."""

    run: str
    label: str
    started_at: float
    bands: list[Band]


def bands_context(request: HttpRequest, runs: Sequence[Run]) -> dict[str, object]:
    """Return what ``runs/_bands.html`` needs, read where it is drawn, and where it is fetched from again."""
    query = request.GET.copy()
    query["fragment"] = "bands"
    return {"word_bands": partial(band_panels, runs), "bands_url": f"?{query.urlencode()}"}


def band_panels(runs: Sequence[Run]) -> list[tuple[str, list[BandRow], dict[str, int]]]:
    """Return each name under which the runs, of many the first, logged nothing but short texts, with a row for each
    run and the colours of its words."""
    by_id = {run.pk: run for run in runs[:MAX_RUNS]}
    found, reached = read.words(list(by_id), MAX_ROWS), telemetry(list(by_id))
    panels: dict[str, tuple[str, list[BandRow], dict[str, int]]] = {}
    for (name, run_id, labels), words in sorted(found.items(), key=lambda one: list(by_id).index(one[0][1])):
        run, seen = by_id[run_id], reached[run_id]
        _, rows, colours = panels.setdefault(name, (name, [], {}))
        named = [*([run.name] if len(runs) > 1 else []), *(" ".join(one) for one in json.loads(labels).items())]
        bands = _bands(words, read.Word("", seen.step or 0, seen.step_at or 0.0), colours)
        rows.append(BandRow(run_id, ", ".join(named), (run.started_at or run.created_at).timestamp(), bands))
    return [panels[name] for name in sorted(panels)]


def _bands(words: Sequence[read.Word], last: read.Word, colours: dict[str, int]) -> list[Band]:
    """Return the stretches of words; ``last`` is how far the run has come. New words get the next colour."""
    starts = [word for at, word in enumerate(words) if not at or words[at - 1].text != word.text]
    bands = []
    for (text, first, began_at), (_, end, ended_at) in pairwise([*starts, last]):
        colour, end = colours.setdefault(text, len(colours) % NUM_COLOURS + 1), max(end, first + 1)
        said = f"{text}: steps {numbers.count(first)} to {numbers.count(end)}"
        bands.append(Band(text, said, colour, first, end, began_at, max(began_at, ended_at)))
    return bands

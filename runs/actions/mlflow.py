"""Runs that the client of MLflow logs: runs from outside, with one producer that reports by points.

What only MLflow knows, its tags and logged models, is kept as facts of the run.
"""

import hashlib
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from django.conf import settings
from django.db import transaction

from runs.actions.local import SpoolProcess, points_came, send_local_run
from runs.ingest.memory import Memory
from runs.ingest.report import Point, report_points
from runs.models import Project, Run, User
from runs.records.metrics import progress
from runs.records.metrics.models import Fact, Producer, Series
from runs.records.points.read import curves
from runs.rights.access import Permission, require
from runs.values.refused import Refused
from runs.values.run_config import RunDescription
from runs.values.status import FINAL
from trainyard.contract.base import JsonObject
from trainyard.formats.parameters import with_params
from trainyard.spec import Problem, SpecError

ALL_POINTS = 10**9
TAGS = "mlflow-tags"
NOTE, NAME = "mlflow.note.content", "mlflow.runName"
ENDS = {
    "FINISHED": SpoolProcess(),
    "FAILED": SpoolProcess(error="status FAILED"),
    "KILLED": SpoolProcess(is_interrupted=True),
}


class MlflowPoint(NamedTuple):
    name: str
    step: int
    time: float  # Unix seconds
    value: float


def may_report(actor: User, run: Run) -> None:
    """Raise Forbidden, and Refused for a run that nodes report: its files, tags and end are theirs."""
    require(actor, run.project, Permission.RUNS_REPORT)
    if not run.is_local:
        raise Refused("not-local", f"Run {run.name} trains on nodes: they send its records themselves.")


def begin(*, actor: User, project: Project, name: str, began_at: float | None) -> Run:
    """Make a run that is at work. Raises Forbidden."""
    local_id = uuid.uuid4().hex
    run = send_local_run(actor=actor, local_id=local_id, name=name, project=project.name, is_live=True)
    report_points(run, producer=_producer(run), sequence=1, points=[])
    return _tell(actor, run, SpoolProcess(began_at=began_at))


def end(*, actor: User, run: Run, status: str, ended_at: float | None) -> Run:
    """Take over what became of it: a status of MLflow's. One that goes on says nothing new."""
    may_report(actor, run)
    if status not in ENDS:
        return run
    return _tell(actor, run, replace(ENDS[status], ended_at=ended_at or time.time()))


def log(*, actor: User, run: Run, points: Sequence[MlflowPoint] = (), params: Mapping[str, str] | None = None) -> None:
    """Store points, each once however often it comes, and parameters, which keep their values. Raises Forbidden,
    SpecError for another value, and Refused for a run that nodes report."""
    may_report(actor, run)
    if params:
        known = flat(run.config)
        if other := next((key for key, text in params.items() if key in known and as_text(known[key]) != text), None):
            words = f"is {as_text(known[other])!r:.80} already and cannot become {params[other]!r:.80}"
            raise SpecError([Problem(f"params.{other}", words)])
        if problem := run.describe(RunDescription(config=with_params(run.config, params))):
            raise SpecError([Problem("params", problem)])
    if points:
        with transaction.atomic(using=settings.METRICS_DATABASE):
            Memory().lock(run.pk)  # two that send the same at once follow each other
            row = Producer.objects.filter(run_id=run.pk, producer=_producer(run)).first()
            fresh: list[Point] = [(one.name, {}, one.step, one.time, one.value) for one in _unknown(run, points)]
            report_points(run, producer=_producer(run), sequence=row.watermark + 1 if row else 1, points=fresh)
        if run.status not in FINAL:
            points_came(run)


def _unknown(run: Run, points: Sequence[MlflowPoint]) -> list[MlflowPoint]:
    """Return the points that are not stored yet, each once: batches have no numbers by which a repeat is known. What
    lies beyond the end of its series is new; only where others lie it is looked."""
    given = {(one.name, one.step, one.time, _same(one.value)): one for one in points}
    ends = Series.objects.filter(run_id=run.pk, name__in={one.name for one in points}, labels_key="{}")
    last = {name: (step, at) for name, step, at in ends.values_list("name", "last_step", "last_time")}
    known: set[tuple[str, int, float, str]] = set()
    if inside := [one for one in given.values() if (one.step, one.time) <= last.get(one.name, ())]:
        at_one_step = len({one.step for one in inside}) == 1  # as where nobody says one
        places = [one.time if at_one_step else one.step for one in inside]
        names = sorted({one.name for one in inside})
        window = min(places), max(places)
        _, found = curves({run.pk: window}, names, x="time" if at_one_step else "step", points=ALL_POINTS)
        for curve in (one for one in found if not one.labels):
            steps, times, values = (curve.columns[name].tolist() for name in ("step", "time", "value"))
            known.update(
                (curve.name, step, at, _same(value)) for step, at, value in zip(steps, times, values, strict=True)
            )
    return [one for key, one in given.items() if key not in known]


def _same(value: float) -> str:
    """Return what is equal for equal values, NaN included."""
    return str(value)


def _producer(run: Run) -> str:
    return hashlib.sha256(f"mlflow {run.pk}".encode()).hexdigest()[:32]


def _tell(actor: User, run: Run, process: SpoolProcess) -> Run:
    return send_local_run(
        actor=actor, local_id=run.local_id or "", name=run.name, processes={_producer(run): process}, is_live=True
    )


# Tags and logged models.


def tags_of(run_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    return dict(Fact.objects.filter(run_id__in=list(run_ids), name=TAGS).values_list("run_id", "data"))


def tag(*, actor: User, run: Run, tags: Mapping[str, str | None]) -> None:
    """Set tags, or forget those whose value is None. ``key=value`` is one of the run's own tags, by which it is found;
    a note is its notes, a name its name."""
    may_report(actor, run)
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)
        kept = {key: text for key, text in {**tags_of([run.pk]).get(run.pk, {}), **tags}.items() if text is not None}
        keep_fact(run, TAGS, kept)
    shown = [f"{key}={text}" for key, text in kept.items() if not key.startswith("mlflow.")]
    own = [one for one in run.tags if one.partition("=")[0] not in {**kept, **tags}]
    run.describe(RunDescription(tags=[*own, *shown], notes=tags.get(NOTE)))
    if name := tags.get(NAME):
        Run.objects.filter(pk=run.pk).update(name=name[:120])


def keep_fact(run: Run, name: str, data: JsonObject) -> None:
    progress.write_facts(run.pk, attempt=run.fence, items=[(-1, progress.ReportedFact(name, data, time.time()))])


def flat(config: JsonObject, above: str = "") -> dict[str, object]:
    """Return the configuration with paths for keys."""
    found: dict[str, object] = {}
    for key, value in config.items():
        found.update(flat(value, f"{above}{key}.") if isinstance(value, dict) and value else {f"{above}{key}": value})
    return found


def as_text(value: object) -> str:
    return value if isinstance(value, str) else str(value)

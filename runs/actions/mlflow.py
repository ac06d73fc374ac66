"""Runs that the client of MLflow logs: runs from outside, with one producer that reports by points.

What only MLflow knows, its tags and logged models, is kept as facts of the run.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models.fields.json import KeyTransform
from django.utils import timezone

from runs.actions.jobs import taking_name
from runs.actions.local import SpoolProcess, may_report, points_came, send_local_run
from runs.ingest.memory import Memory
from runs.ingest.report import Point, report_points
from runs.models import Experiment, Project, Run, User
from runs.records.metrics import progress
from runs.records.metrics.models import Fact, Producer, Series
from runs.records.points.read import curves
from runs.rights.access import NotFound, Permission, require, visible_projects
from runs.values.refused import Refused
from runs.values.run_config import RunDescription
from runs.values.status import FINAL
from trainyard.contract.base import JsonObject
from trainyard.formats.parameters import leaves, with_params
from trainyard.spec import Problem, SpecError

ALL_POINTS = 10**9
TAGS, USES = "mlflow-tags", "mlflow-uses"
MAX_USES = 1_000
NOTE, NAME = "mlflow.note.content", "mlflow.runName"
AUTHOR = "mlflow.user_id"  # no tag for MLflow: who the client says that it works for
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


def begin(*, actor: User, project: Project, name: str, began_at: float | None, experiment: Experiment | None) -> Run:
    """Make a run that is at work. Raises Forbidden, and Refused for an experiment that was deleted."""
    if experiment and experiment.archived_at:
        raise Refused("archived", f"Experiment {experiment.name} is deleted. Restore it before it gets new runs.")
    described = RunDescription(group=experiment.name if experiment else None)
    run = send_local_run(
        actor=actor, local_id=uuid.uuid4().hex, name=name, project=project.name, is_live=True, description=described
    )
    report_points(run, producer=_producer(run), sequence=1, points=[])
    return _tell(actor, run, SpoolProcess(began_at=began_at))


def end(*, actor: User, run: Run, status: str, ended_at: float | None) -> Run:
    """Take over what became of it: a status of MLflow's. One that goes on says nothing new."""
    may_report(actor, run)
    return run if status not in ENDS else _tell(actor, run, replace(ENDS[status], ended_at=ended_at or time.time()))


def log(*, actor: User, run: Run, points: Sequence[MlflowPoint] = (), params: Mapping[str, str] | None = None) -> None:
    """Store points, each once however often it comes, and parameters, which keep their values. Raises Forbidden,
    SpecError for another value, and Refused for a run that nodes report."""
    may_report(actor, run)
    if params:
        known = dict(leaves(run.config))
        if other := next((key for key, text in params.items() if key in known and str(known[key]) != text), None):
            words = f"is {str(known[other])!r:.80} already and cannot become {params[other]!r:.80}"
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
    given = {(one.name, one.step, one.time, str(one.value)): one for one in points}  # as texts, NaN is equal to NaN
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
            known.update((curve.name, step, at, str(one)) for step, at, one in zip(steps, times, values, strict=True))
    return [one for key, one in given.items() if key not in known]


def _producer(run: Run) -> str:
    return hashlib.sha256(f"mlflow {run.pk}".encode()).hexdigest()[:32]


def _tell(actor: User, run: Run, process: SpoolProcess) -> Run:
    processes = {_producer(run): process}
    return send_local_run(actor=actor, local_id=run.local_id or "", name=run.name, processes=processes, is_live=True)


# Experiments.


def create_experiment(*, actor: User, project: Project, name: str, tags: Mapping[str, str]) -> Experiment:
    """Raises Forbidden, and Refused for a name that an experiment of the project, or a project, has."""
    require(actor, project, Permission.RUNS_REPORT)
    with _name_is_free(actor, name):
        return Experiment.objects.create(project=project, name=name, tags=dict(tags))


def change_experiment(
    *, actor: User, experiment: Experiment, name: str = "", tags: Mapping[str, str | None] | None = None,
    is_archived: bool | None = None,
) -> None:  # fmt: skip
    """Take over what is given. Its runs, which know it as their group, follow a new name. Raises as
    ``create_experiment`` does."""
    require(actor, experiment.project, Permission.RUNS_REPORT)
    with transaction.atomic():
        row = Experiment.objects.select_for_update().get(pk=experiment.pk)
        old, row.name = row.name, name or row.name
        row.tags = {key: text for key, text in {**row.tags, **(tags or {})}.items() if text is not None}
        if is_archived is not None:
            row.archived_at = timezone.now() if is_archived else None
        if row.name == old:
            row.save()
            return
        with _name_is_free(actor, name):
            row.save()
        for run in row.project.runs.filter(spec__local__group=old).iterator():
            run.describe(RunDescription(group=name))


@contextmanager
def _name_is_free(actor: User, name: str) -> Iterator[None]:
    taken = f"There is already an experiment named {name}."
    if visible_projects(actor).filter(name=name).exists():
        raise Refused("name-taken", taken)
    with taking_name(taken):
        yield


# Tags, inputs and logged models.


def facts_of(run_ids: Iterable[str], name: str) -> dict[str, Any]:
    return dict(Fact.objects.filter(run_id__in=list(run_ids), name=name).values_list("run_id", "data"))


def tagged(key: str, texts: Sequence[str]) -> list[str]:
    """Return the runs, of whomever, that have one of the texts in this tag of MLflow's own."""
    facts = Fact.objects.filter(name=TAGS).annotate(held=KeyTransform(key, "data"))
    return list(facts.filter(held__in=texts).values_list("run_id", flat=True))


def add_uses(*, actor: User, run: Run, **uses: Sequence[JsonObject]) -> None:
    """Keep what the run reads and makes, by ``dataset_inputs``, ``model_inputs`` and ``model_outputs``, each once.
    Raises Forbidden and Refused."""
    may_report(actor, run)
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)
        kept = facts_of([run.pk], USES).get(run.pk, {})
        for kind, found in uses.items():
            known = kept.get(kind, [])
            kept[kind] = [*known, *(one for one in found if one not in known)]
            if len(kept[kind]) > MAX_USES:
                raise Refused("too-many", f"Run {run.name} has {MAX_USES:,} {kind.replace('_', ' ')} already.")
        keep_fact(run, USES, kept)


def tag(*, actor: User, run: Run, tags: Mapping[str, str | None]) -> None:
    """Set tags, or forget those whose value is None. ``key=value`` is one of the run's own tags, by which it is found;
    a note is its notes, a name its name."""
    may_report(actor, run)
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)
        before = facts_of([run.pk], TAGS).get(run.pk, {})
        kept = {key: text for key, text in {**before, **tags}.items() if text is not None}
        keep_fact(run, TAGS, kept)
    shown = [f"{key}={text}" for key, text in kept.items() if not key.startswith("mlflow.")]
    own = [one for one in run.tags if one.partition("=")[0] not in {**kept, **tags}]
    run.describe(RunDescription(tags=[*own, *shown], notes=tags.get(NOTE)))
    if name := tags.get(NAME):
        Run.objects.filter(pk=run.pk).update(name=name[:120])


def untag(*, actor: User, run: Run, key: str) -> None:
    """Raises NotFound for a tag that the run has not, and else as ``tag`` does."""
    if key not in facts_of([run.pk], TAGS).get(run.pk, {}):
        raise NotFound(f"No tag with name: {key:.80} in run with id {run.pk}.")
    tag(actor=actor, run=run, tags={key: None})


def keep_fact(run: Run, name: str, data: JsonObject) -> None:
    """Raises Refused where the run has no room for another one."""
    if progress.write_facts(run.pk, attempt=run.fence, items=[(-1, progress.ReportedFact(name, data, time.time()))]):
        raise Refused("too-many", f"Run {run.name} has {progress.MAX_FACTS:,} facts already, logged models among them.")


MODEL_ID = re.compile(r"m-[0-9a-f]{32}")
MAX_MODEL_METRICS = 1_000


def is_model(data: JsonObject) -> bool:
    """Return whether a fact is a logged model: facts are a script's to name."""
    info, inner = data.get("info"), data.get("data")
    if not isinstance(info, dict) or not isinstance(inner, dict):
        return False
    lists = (info.get("tags"), inner.get("params"), inner.get("metrics"))
    return all(isinstance(one, list) and all(map(_is_pair, one)) for one in lists)


def _is_pair(found: object) -> bool:
    match found:
        case {"key": str(), "value": str() | float() | int()}:
            return True
    return False


def model_fact(model_id: str) -> Fact | None:
    fact = Fact.objects.filter(name=model_id).order_by("pk").first() if MODEL_ID.fullmatch(model_id) else None
    return fact if fact and is_model(fact.data) else None


def change_model(
    *, actor: User, run: Run, model_id: str, status: str = "", tags: Mapping[str, str | None] | None = None,
    params: Mapping[str, str] | None = None, metrics: Sequence[JsonObject] = (),
) -> JsonObject:  # fmt: skip
    """Take over what is given into the logged model of the run. Raises Forbidden, Refused and NotFound."""
    may_report(actor, run)
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)
        fact = model_fact(model_id)
        if fact is None or fact.run_id != run.pk:
            raise NotFound(f"Logged model {model_id!r:.80} was not found.")
        model: JsonObject = fact.data
        model["info"]["status"] = status or model["info"].get("status", "")
        model["info"]["tags"] = _merged(model["info"]["tags"], tags or {})
        model["data"]["params"] = _merged(model["data"]["params"], params or {})
        known = model["data"]["metrics"]
        model["data"]["metrics"] = [*known, *(one for one in metrics if one not in known)][-MAX_MODEL_METRICS:]
        model["info"]["last_updated_timestamp_ms"] = int(time.time() * 1000)
        keep_fact(run, model_id, model)
    return model


def _merged(known: Sequence[JsonObject], pairs: Mapping[str, str | None]) -> list[JsonObject]:
    found = {one["key"]: one["value"] for one in known} | dict(pairs)
    return [{"key": key, "value": value} for key, value in found.items() if value is not None]

"""Runs that are logged outside of Trainyard and sent here: live by the SDK, or afterwards with `trainyard sync`.

Such a run is identified by its local id, which its own processes chose: sending it again finds the same row. No node
holds it. Its status follows from what was sent so far: an end needs proof, and silence is no proof. While heartbeats
arrive it is RUNNING; ``runs.life.reconcile.loop`` changes that when they stop.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Annotated, NamedTuple

from django.db import IntegrityError, transaction
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from runs.ingest.commit import REST
from runs.models import Project, Run, User
from runs.models.runs import StaleStatus
from runs.records.metrics.bulk import storable
from runs.records.metrics.models import Producer
from runs.rights.access import Permission, can, project_by_name, require
from runs.values.refused import Refused
from runs.values.run_config import RunDescription, why_not_kept
from runs.values.status import FINAL, Status
from trainyard.contract.base import SpecDocument
from trainyard.spec import Problem, SpecError

FENCE = 1  # all that was logged counts as one attempt
DEFAULT_PROJECT = "default"
GIVEN_UP = "given-up"
HEARTBEATS_STOP_S = 30.0  # without one for so long, a run that was live counts as out of contact
MAX_ERRORS = 20  # that are kept as evidence
YEAR_3000 = 32_503_680_000.0


Text = Annotated[str, StringConstraints(max_length=500), AfterValidator(storable)]
Moment = Annotated[float, Field(ge=0, le=YEAR_3000, allow_inf_nan=False)]


@dataclass(frozen=True)
class SpoolProcess:
    """The facts about one process from its spool, as REST takes them. Times in Unix seconds; -1 is no rank."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    rank: Annotated[int, Field(ge=-1, lt=2**31)] = -1
    host: Text = ""
    began_at: Moment | None = None
    ended_at: Moment | None = None
    error: Annotated[Text, Field(description="the error that ended it")] = ""
    is_interrupted: Annotated[bool, Field(description="Ctrl-C ended it")] = False
    # Then its end does not matter.
    is_replaced: Annotated[bool, Field(description="its launcher started another process in its place")] = False

    @property
    def words(self) -> str:
        who = f"Rank {self.rank}" if self.rank >= 0 else "The script"
        return f"{who} on {self.host}" if self.host else who


class LocalOutcome(NamedTuple):
    status: Status
    code: str
    sentence: str


LIVE = LocalOutcome(Status.RUNNING, "live", "It runs outside of Trainyard and sends what it logs.")


def may_report(actor: User, run: Run) -> None:
    """Raise Forbidden, and Refused for a run that nodes report: its files, tags and end are theirs."""
    require(actor, run.project, Permission.RUNS_REPORT)
    if not run.is_local:
        raise Refused("not-local", f"Run {run.name} trains on nodes: they send its records themselves.")


def send_local_run(
    *,
    actor: User,
    local_id: str,
    name: str,
    script: str = "",
    host: str = "",
    project: str | None = None,
    processes: Mapping[str, SpoolProcess] | None = None,
    is_live: bool = False,
    description: RunDescription | None = None,
) -> Run:
    """Return the run of that local id, which is made the first time, and decide anew what became of it.

    ``processes`` by producer is what lies on the sender's disk; what of it has arrived is read from the database.
    ``is_live``: one of them is at work and sends this, which is the run's heartbeat.
    Raises NotFound or Forbidden for the project, Refused for a local run that went to another project, SpecError for
    a configuration that cannot be kept.
    """
    if description is not None and (words := why_not_kept(description.config or {})):
        raise SpecError([Problem("config", words)])
    run = Run.objects.filter(local_id=local_id).select_related("project").first()
    if run is None:
        run = _create(actor, local_id, name, script, host, project)
    else:
        _check_is_ours(actor, run, project)
    if description is not None and (words := run.describe(description)):
        raise SpecError([Problem("config", f"with what is there, {words}")])
    if is_live:
        _beat(run)
    for _ in range(3):  # another sync of the same run may be at it
        try:
            _decide(run, processes or {})
            return run
        except StaleStatus:
            run.refresh_from_db()
    raise Refused("busy", f"Run {run.name} is being sent by several at once. Try again.")


def points_came(run: Run) -> None:
    """Decide anew what became of a run that a program without a spool reports by points: they are its heartbeat."""
    if run.is_local:
        _beat(run)
        with contextlib.suppress(StaleStatus):  # another batch of it was faster
            _decide(run, {})


def _beat(run: Run) -> None:
    run.heartbeat_at = timezone.now()
    Run.objects.filter(pk=run.pk).update(heartbeat_at=run.heartbeat_at)


def _create(actor: User, local_id: str, name: str, script: str, host: str, project: str | None) -> Run:
    into = project_by_name(actor, project or DEFAULT_PROJECT)
    require(actor, into, Permission.RUNS_REPORT)
    try:
        with transaction.atomic():
            return _insert(actor, into, local_id, name, script, host)
    except IntegrityError:  # another sync was faster
        run = Run.objects.select_related("project").get(local_id=local_id)
        _check_is_ours(actor, run, project)
        return run


def _insert(actor: User, project: Project, local_id: str, name: str, script: str, host: str) -> Run:
    task = {"script": PurePath(script).name or "interactive session"}  # cannot be launched: there is no code
    local = {"id": local_id, "script": script, "host": host}
    run = Run.make(
        project=project,
        local_id=local_id,
        name=name,
        spec=SpecDocument({"name": name, "project": project.name, "task": task, "local": local}),
        status=Status.LOST,
        reason_code="no-records",
        reason_sentence="Logged outside of Trainyard; nothing of it has arrived yet.",
        fence=FENCE,
        created_by=actor,
    )
    run.record("sent", f"Sent by {actor} from {host}." if host else f"Sent by {actor}.", actor=actor)
    return run


def _check_is_ours(actor: User, run: Run, project: str | None) -> None:
    if not can(actor, run.project, Permission.RUNS_READ):
        raise Refused("sent-elsewhere", "This local run was sent before, to a project that you cannot see.")
    require(actor, run.project, Permission.RUNS_REPORT)
    if project not in (None, run.project.name, run.project_id):
        raise Refused("sent-elsewhere", f"This local run was sent before, to project {run.project.name} as {run.pk}.")


def _decide(run: Run, processes: Mapping[str, SpoolProcess]) -> None:
    rows = list(Producer.objects.filter(run_id=run.pk))
    if spools := [row for row in rows if row.role != REST]:  # of a run that has any, others only add numbers
        rows = spools
    for row in rows:
        told = processes.get(row.producer)
        if row.role == REST and row.end_sequence is None and told is not None and told.ended_at is not None:
            row.end_sequence = row.watermark  # by word, and for good: a batch before it may come again
            row.save(update_fields=["end_sequence"])
    ended = {row.producer for row in rows if row.end_sequence is not None and row.watermark >= row.end_sequence}
    known = {row.producer: processes.get(row.producer, SpoolProcess(rank=row.rank)) for row in rows}
    before = run.reason_evidence.get("errors") or {}  # of processes on other machines, too: their own sync sent them
    errors = {key: text for key, text in before.items() if key not in processes} | _errors_of(known, ended)
    former = LocalOutcome(Status(run.status), run.reason_code, run.reason_sentence)
    is_live = run.heartbeat_at is not None and timezone.now() - run.heartbeat_at < timedelta(seconds=HEARTBEATS_STOP_S)
    outcome = judge(former, known, ended, errors, is_live=is_live)
    began = [one.began_at for one in known.values() if one.began_at is not None]
    over = [one.ended_at for one in known.values() if one.ended_at is not None]
    with transaction.atomic():
        if outcome.status != run.status:
            evidence = {"errors": errors} if errors else {}
            run.move_to(outcome.status, code=outcome.code, sentence=outcome.sentence, evidence=evidence)
        elif outcome.sentence != run.reason_sentence:
            run.reason_code, run.reason_sentence = outcome.code, outcome.sentence
            run.save(update_fields=["reason_code", "reason_sentence"])
        if began:
            first = datetime.fromtimestamp(min(began), UTC)
            run.started_at = min(first, run.started_at or first)
        if run.status in FINAL and over and outcome.code != GIVEN_UP:
            run.ended_at = datetime.fromtimestamp(max(over), UTC)
        run.save(update_fields=["started_at", "ended_at"])


def judge(
    before: LocalOutcome,
    processes: Mapping[str, SpoolProcess],
    ended: set[str],
    errors: Mapping[str, str],
    *,
    is_live: bool = False,
) -> LocalOutcome:
    """Return what is known of a run whose ``processes`` sent records; ``ended`` are those whose end has arrived.

    ``is_live``: its heartbeats come.
    """
    if not processes:
        return LIVE if is_live and before.code != GIVEN_UP else before
    current = {producer: one for producer, one in processes.items() if not one.is_replaced}
    num_open = len(current.keys() - ended)
    failed = [current[producer] for producer in errors if producer in current and current[producer].rank >= 0]
    if errors and (not num_open or failed):
        return LocalOutcome(Status.FAILED, "script-failed", next(iter(errors.values())))
    if num_open:
        if before.code == GIVEN_UP:  # a person's word stands until the end is there
            return before
        if is_live:
            return LIVE
        whose = "Its end has" if len(current) == 1 else f"The end of {num_open} of its {len(current)} processes has"
        sentence = f"{whose} not arrived: it is still running, or it was killed. Run trainyard sync again to find out."
        return LocalOutcome(Status.LOST, "no-end", f"Logged outside of Trainyard. {sentence}")
    if any(one.is_interrupted for one in current.values()):
        return LocalOutcome(Status.CANCELLED, "interrupted", "It was interrupted where it ran.")
    sentence = "Logged outside of Trainyard; every process has ended and all records have arrived."
    return LocalOutcome(Status.SUCCEEDED, "finished", sentence)


def _errors_of(known: Mapping[str, SpoolProcess], ended: set[str]) -> dict[str, str]:
    """Return what ended processes, in words, by producer: first what failed first, since others often die of it."""
    failed = [(producer, one) for producer, one in known.items() if one.error and not one.is_replaced]
    failed.sort(key=lambda pair: (pair[1].ended_at or 0.0, pair[1].rank))
    found = {producer: f"{one.words} ended with {one.error}" for producer, one in failed if producer in ended}
    return dict(list(found.items())[:MAX_ERRORS])

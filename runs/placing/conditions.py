"""What runs wait for beside room, as sentences: a time, other runs, their turn in an array. No spec is read."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from runs.models import Cluster, Dependency, Run, StartTerms
from runs.values.status import FINAL, Status
from trainyard.contract.base import SpecDocument
from trainyard.spec.sections.starting import moment_of


def not_yet(cluster: Cluster, now: datetime) -> dict[str, str]:
    """Return which runs of the cluster's queue may not start yet, and why. A run that was placed before goes on."""
    queued = Q(run__cluster=cluster, run__status=Status.QUEUED)
    rows = StartTerms.objects.filter(queued, run__fence=0, not_before__gt=now).values_list("run", "not_before")
    found = {run: _until(not_before) for run, not_before in rows if not_before}
    others = Dependency.objects.filter(queued, run__fence=0).order_by("pk")
    for run, *other in others.values_list("run", "name", "must_succeed", "other__status"):
        if run not in found and (sentence := _waits_for(*other)):
            found[run] = sentence
    return found


def hopeless(cluster: Cluster) -> Iterator[tuple[Run, str]]:
    """Yield the runs of the queue that wait for the success of one that ended without, and a sentence about each."""
    ended = {Status.FAILED.value: "failed", Status.CANCELLED.value: "was cancelled"}
    rows = Dependency.objects.filter(run__cluster=cluster, run__status=Status.QUEUED, run__fence=0, must_succeed=True)
    rows = rows.filter(other__status__in=ended).order_by("-pk")
    found = {run: (name, status) for run, name, status in rows.values_list("run", "name", "other__status")}
    for run in Run.objects.defer("spec", "estimate").filter(pk__in=found):
        name, status = found[run.pk]
        yield run, f"Run {name}, whose success it waited for, {ended[status]}."


def why_not_yet(spec: SpecDocument, now: datetime) -> str:
    """Return why a run of the resolved spec would not start now, whatever room there is; empty where it may."""
    not_before = moment_of(text) if (text := spec.get("not_before")) else now
    if not_before > now:
        return _until(not_before)
    after = spec.get("after") or {}
    others = Run.objects.filter(pk__in=after.get("runs", ())).order_by("number").values_list("name", "status")
    return next(filter(None, (_waits_for(name, after["on"] == "ok", status) for name, status in others)), "")


def _until(moment: datetime) -> str:
    seconds = ":%S" if moment.second else ""
    return f"Waiting until {moment:%Y-%m-%d %H:%M{seconds}} UTC."


def _waits_for(name: str, must_succeed: bool, status: str | None) -> str:
    """Say that a run waits for another in that status, None where it was deleted; nothing where it does not."""
    if status == Status.SUCCEEDED or (not must_succeed and status in (*FINAL, None)):
        return ""
    if status is None:
        return f"Run {name} was deleted before it succeeded: clone this run with others to wait for, and cancel it."
    return f"Waiting for run {name} to {'succeed' if must_succeed else 'end'}."

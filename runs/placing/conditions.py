"""What runs wait for beside room, as reasons: a time, other runs, their turn in an array. No spec is read."""

from collections import Counter
from collections.abc import Iterator, Set
from datetime import datetime

from django.db.models import Q

from runs.models import Cluster, Dependency, HeldSlot, Run, StartTerms
from runs.values.status import FINAL, Reason, Status, WaitCode
from trainyard.contract.base import SpecDocument
from trainyard.grouping import grouped
from trainyard.spec.sections.starting import moment_of


def not_yet(cluster: Cluster, now: datetime) -> dict[str, Reason]:
    """Return which runs of the cluster's queue may not start yet, and why. A run that was placed before goes on."""
    queued = Q(run__cluster=cluster, run__status=Status.QUEUED)
    rows = StartTerms.objects.filter(queued, run__fence=0, not_before__gt=now).values_list("run", "not_before")
    found = {run: _until(not_before) for run, not_before in rows if not_before}
    others = Dependency.objects.filter(queued, run__fence=0).order_by("pk")
    for run, name, must_succeed, status in others.values_list("run", "name", "must_succeed", "other__status"):
        if run not in found and (why := _waits_for(name, must_succeed, status)):
            found[run] = why
    return found | _turns(queued, set(found))


def _turns(queued: Q, others: Set[str]) -> dict[str, Reason]:
    """Return the runs of arrays, without some, that wait until another one has left its nodes. One that was placed
    before goes first."""
    rows = StartTerms.objects.filter(queued, at_once__gt=0).order_by("-run__priority", "run__number")
    terms = rows.values_list("array", "at_once", "run", "run__fence")
    waiting = grouped(((array, at_once), (not fence, run)) for array, at_once, run, fence in terms if run not in others)
    # Not by their status: a run whose last records are on their way has left its slots.
    holders = HeldSlot.objects.filter(placement__attempt__run__start_terms__array__in=[one for one, _ in waiting])
    again = Q(run__status__in=(Status.RECOVERING, Status.RESIZING))
    placed = StartTerms.objects.filter(Q(run__in=holders.values("placement__attempt__run")) | again)
    counts = Counter(placed.filter(array__in=[one for one, _ in waiting]).values_list("array", flat=True))
    found: dict[str, Reason] = {}
    for (array, at_once), runs in waiting.items():
        late = sorted(runs, key=lambda one: one[0])[max(0, at_once - counts[array]) :]
        sentence = f"Waiting for another run of its array: {at_once} at a time."
        found |= dict.fromkeys((run for _, run in late), Reason(WaitCode.ARRAY, sentence))
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


def why_not_yet(spec: SpecDocument, now: datetime) -> Reason | None:
    """Return why a run of the resolved spec would not start now, whatever room there is; None where it may."""
    not_before = moment_of(text) if (text := spec.get("not_before")) else now
    if not_before > now:
        return _until(not_before)
    after = spec.get("after") or {}
    others = Run.objects.filter(pk__in=after.get("runs", ())).order_by("number").values_list("name", "status")
    return next(filter(None, (_waits_for(name, after["on"] == "ok", status) for name, status in others)), None)


def _until(moment: datetime) -> Reason:
    seconds = ":%S" if moment.second else ""
    return Reason(WaitCode.TIME, f"Waiting until {moment:%Y-%m-%d %H:%M{seconds}} UTC.")


def _waits_for(name: str, must_succeed: bool, status: str | None) -> Reason | None:
    """Say that a run waits for another in that status, None where it was deleted; nothing where it does not."""
    if status == Status.SUCCEEDED or (not must_succeed and status in (*FINAL, None)):
        return None
    sentence = f"Waiting for run {name} to {'succeed' if must_succeed else 'end'}."
    if status is None:
        sentence = f"Run {name} was deleted before it succeeded: clone this run with others to wait for, and cancel it."
    return Reason(WaitCode.RUN, sentence)

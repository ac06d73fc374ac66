"""Admission: runs that may start on a cluster now, whatever room it has. A rule is a pure function on plain values, and
a row of RULES. What one refuses waits with its sentence, and keeps nobody behind it waiting."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Q, QuerySet

from runs.models import Cluster, HeldSlot, Project, Run, Sweep, Trial
from runs.placing.conditions import not_yet
from runs.placing.fitting import Request
from runs.placing.usage import held_by_project, used_this_month
from runs.rights.access import users_who_may_run_on
from runs.values.status import Status
from trainyard.contract.statuses import SweepStatus

WARN_AT = 0.8  # of a limit
Refusals = Mapping[str, str]  # sentences, by run


@dataclass(frozen=True)
class Part:
    """Limits of a project over all clusters, and what it has of them. None: no limit."""

    slots: int | None = None  # at once
    held: float = 0.0
    slot_hours: float | None = None  # in a month
    used_hours: float = 0.0

    def warning(self, project: str) -> str:
        """Say which limit is used to four fifths or more; nothing before."""
        words = []
        if self.slots and self.held >= WARN_AT * self.slots:
            words.append(f"Project {project} holds {self.held:g} of the {self.slots} slots that it may.")
        if self.slot_hours and self.used_hours >= WARN_AT * self.slot_hours:
            words.append(f"Project {project} has used {self.used_hours:.1f} of its {self.slot_hours:g} slot-hours.")
        return " ".join(words)


@dataclass(frozen=True)
class Terms:
    """Facts that the rules of a cluster go by."""

    cluster: str  # its name
    projects: frozenset[str]  # whose runs it takes, by name
    people: frozenset[int]  # whose runs it takes in any project
    elsewhere: Mapping[str, str]  # why it is in no region of a project, by the project's name
    trials: Refusals  # of sweeps that are paused or have as many on nodes as they may; and who may not start yet
    parts: Mapping[str, Part] = field(default_factory=dict)  # of projects that have limits, by name


def refused(requests: Sequence[Request], terms: Terms) -> dict[str, str]:
    """Return which of the requests, which come oldest first, may not start, and why."""
    found: dict[str, str] = {}
    for rule in RULES:
        found |= rule([one for one in requests if one.run not in found], terms)
    return found


def _trials(requests: Sequence[Request], terms: Terms) -> Refusals:
    return {one.run: terms.trials[one.run] for one in requests if one.run in terms.trials}


def _not_allowed(requests: Sequence[Request], terms: Terms) -> Refusals:
    others = [one.run for one in requests if one.project not in terms.projects and one.person not in terms.people]
    return dict.fromkeys(others, f"Its project may not use cluster {terms.cluster} any more.")


def _beyond_slots(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of requests with which a project would hold more slots than it may."""
    found = {}
    asked: dict[str, float] = defaultdict(float)
    for one in requests:
        part, needs = terms.parts.get(one.project), one.whole_slots
        if part is not None and part.slots is not None and part.held + asked[one.project] + needs > part.slots:
            may = f"Project {one.project} may hold {part.slots} slots at once"
            found[one.run] = f"{may}: it holds {part.held:g}, and this run needs {needs:g}."
        else:
            asked[one.project] += needs
    return found


def _beyond_hours(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of projects that have used up their month. What runs goes on."""
    return {
        one.run: f"Project {one.project} has used the {part.slot_hours:g} slot-hours that it has in a month."
        for one in requests
        if (part := terms.parts.get(one.project)) and part.slot_hours is not None and part.used_hours >= part.slot_hours
    }


def within(request: Request, terms: Terms) -> Request:
    """Return the request of an elastic run with the numbers of nodes that its project's limit has room for."""
    part = terms.parts.get(request.project)
    if part is None or part.slots is None:
        return request
    room = (part.slots - part.held) // request.slots_per_node
    return replace(request, node_counts=tuple(number for number in request.node_counts if number <= room))


def _elsewhere(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of requests of projects that are pinned to other regions."""
    return {one.run: terms.elsewhere[one.project] for one in requests if one.project in terms.elsewhere}


# A later one is asked about what those before it let pass.
RULES = (_trials, _not_allowed, _elsewhere, _beyond_hours, _beyond_slots)


def terms_of(cluster: Cluster, now: datetime) -> Terms:
    return Terms(
        cluster=cluster.name,
        projects=frozenset(cluster.projects.values_list("name", flat=True)),
        people=frozenset(users_who_may_run_on(cluster).values_list("pk", flat=True)),
        elsewhere={
            project.name: f"{sentence} It waits."
            for project in Project.objects.exclude(regions="")
            if (sentence := project.why_not_in(f"cluster {cluster.name}", cluster.region))
        },
        trials=not_yet(cluster, now) | _held_back(cluster),
        parts=parts_of(Project.objects.exclude(slots=None, slot_hours_month=None), now),
    )


def parts_of(projects: QuerySet[Project], now: datetime) -> dict[str, Part]:
    """Return what each of the projects may have, and has."""
    rows = list(projects.values_list("name", "slots", "slot_hours_month"))
    held = held_by_project() if rows else {}
    used = used_this_month(now, [name for name, _, _ in rows]) if rows else {}
    return {name: Part(slots, held.get(name, 0.0), hours, used.get(name, 0.0)) for name, slots, hours in rows}


def _held_back(cluster: Cluster) -> dict[str, str]:
    """Return the trials that wait until another one of their sweep has left its slots: they are queued early, so that
    the next one is there by then. A run that was placed before goes on."""
    queued = Trial.objects.filter(run__cluster=cluster, run__status=Status.QUEUED, run__fence=0)
    waiting: dict[str, list[str]] = defaultdict(list)
    for sweep_id, run_id in queued.order_by("number").values_list("sweep_id", "run_id"):
        waiting[sweep_id].append(str(run_id))
    found: dict[str, str] = {}
    for sweep in Sweep.objects.filter(pk__in=waiting):
        if sweep.parsed.ahead:
            found |= _of_sweep(sweep, waiting[sweep.pk])
    return found


def _of_sweep(sweep: Sweep, run_ids: list[str]) -> dict[str, str]:
    if sweep.status == SweepStatus.PAUSED:
        return dict.fromkeys(run_ids, f"Sweep {sweep.name} is paused.")
    parallel = sweep.parsed.budget.parallel
    # Not by their status: a run whose last records are on their way has left its slots.
    holders = HeldSlot.objects.filter(placement__attempt__run__trial__sweep=sweep).values("placement__attempt__run")
    again = Q(trial__sweep=sweep, status__in=(Status.RECOVERING, Status.RESIZING))
    room = max(0, parallel - Run.objects.filter(Q(pk__in=holders) | again).count())
    sentence = f"Waiting for another trial of sweep {sweep.name} to end: {parallel} run at a time."
    return dict.fromkeys(run_ids[room:], sentence)

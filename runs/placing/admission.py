"""Admission: runs that may start on a cluster now, whatever room it has. A rule is a pure function on plain values, and
a row of RULES. What one refuses waits with its reason, and keeps nobody behind it waiting."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Q, QuerySet

from runs.models import Cluster, HeldSlot, Project, Run, Sweep, Trial
from runs.placing.conditions import not_yet
from runs.placing.fitting import Request
from runs.placing.usage import first_of_month, held_of, used_this_month
from runs.rights.access import users_who_may_run_on
from runs.values.columns import LimitNotice
from runs.values.status import Reason, Status, WaitCode
from trainyard.contract.base import to_builtins
from trainyard.contract.statuses import SweepStatus
from trainyard.formats.words import counted
from trainyard.grouping import grouped

WARN_AT = 0.8  # of a limit
Refusals = Mapping[str, Reason]  # by run


# Of a limit that is used to four fifths or more, by the name of its field.
NEAR = {
    "slots": "holds {0:g} of the {1:,} slots that it may",
    "runs_at_once": "has {0} of the {1:,} runs that it may at once",
    "slots_per_person": "has a person who holds {0:g} of the {1:,} slots that each may",
    "slot_hours_month": "has used {0:.1f} of its {1:,.10g} slot-hours",
    "budget_month": "has spent {0:,.2f} of the {1:,.10g} that it may in a month",
}


@dataclass(frozen=True)
class Part:
    """Limits of a project over all clusters, and what it has of them. None: no limit."""

    slots: int | None = None  # at once
    held: float = 0.0
    slot_hours: float | None = None  # in a month
    used_hours: float = 0.0
    runs: int | None = None  # at once
    num_runs: int = 0
    per_person: int | None = None  # slots at once
    by_person: Mapping[int, float] = field(default_factory=dict)
    budget: float | None = None  # of a month
    spent: float = 0.0

    def near(self, project: str) -> dict[str, str]:
        """Return a sentence on each limit that is used to four fifths or more, by the name of its field."""
        rows = (
            (self.slots, self.held), (self.runs, self.num_runs),
            (self.per_person, max(self.by_person.values(), default=0.0)), (self.slot_hours, self.used_hours),
            (self.budget, self.spent),
        )  # fmt: skip
        return {
            name: f"Project {project} {words.format(has, limit)}."
            for (name, words), (limit, has) in zip(NEAR.items(), rows, strict=True)
            if limit and has >= WARN_AT * limit
        }

    def warning(self, project: str) -> str:
        return " ".join(self.near(project).values())

    def why_not(self, one: Request, slots: float, runs: float, own: float) -> str:
        """Say why the run may not start beside what goes before it: slots and runs of its project, slots of its
        person."""
        needs, has = one.whole_slots, self.by_person.get(one.person or 0, 0.0)
        if self.slots is not None and self.held + slots + needs > self.slots:
            may = f"Project {one.project} may hold {counted(self.slots, 'slot')} at once"
            return f"{may}: it holds {self.held:g}, and this run needs {needs:g}."
        if self.runs is not None and self.num_runs + runs >= self.runs:
            return f"Project {one.project} may have {counted(self.runs, 'run')} at once: it has {self.num_runs}."
        if self.per_person is not None and has + own + needs > self.per_person:
            may = f"Each person may hold {counted(self.per_person, 'slot')} at once in project {one.project}"
            return f"{may}: who launched this run holds {has:g}, and it needs {needs:g}."
        return ""

    def room(self, person: int | None) -> float | None:
        """Return how many slots more a run of the person may hold; None: any number."""
        slots = None if self.slots is None else self.slots - self.held
        own = None if self.per_person is None else self.per_person - self.by_person.get(person or 0, 0.0)
        return min((one for one in (slots, own) if one is not None), default=None)


@dataclass(frozen=True)
class Terms:
    """Facts that the rules of a cluster go by."""

    cluster: str  # its name
    projects: frozenset[str]  # whose runs it takes, by name
    people: frozenset[int]  # whose runs it takes in any project
    elsewhere: Mapping[str, str]  # why it is in no region of a project, by the project's name
    trials: Refusals  # of sweeps that are paused or have as many on nodes as they may; and who may not start yet
    parts: Mapping[str, Part] = field(default_factory=dict)  # of projects that have limits, by name


def refused(requests: Sequence[Request], terms: Terms) -> dict[str, Reason]:
    """Return which of the requests, which come oldest first, may not start, and why."""
    found: dict[str, Reason] = {}
    for rule in RULES:
        found |= rule([one for one in requests if one.run not in found], terms)
    return found


def _trials(requests: Sequence[Request], terms: Terms) -> Refusals:
    return {one.run: terms.trials[one.run] for one in requests if one.run in terms.trials}


def _not_allowed(requests: Sequence[Request], terms: Terms) -> Refusals:
    why = Reason(WaitCode.NOT_ALLOWED, f"Its project may not use cluster {terms.cluster} any more.")
    return {one.run: why for one in requests if one.project not in terms.projects and one.person not in terms.people}


def _beyond_at_once(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of requests with which a project, or a person in it, would have more at once than it may."""
    found = {}
    asked: dict[object, float] = defaultdict(float)
    for one in requests:
        if (part := terms.parts.get(one.project)) is None:
            continue
        amounts = {one.project: one.whole_slots, (one.project, "runs"): 1, (one.project, one.person): one.whole_slots}
        if words := part.why_not(one, *(asked[key] for key in amounts)):
            found[one.run] = Reason(WaitCode.QUOTA, words)
            continue
        for key, amount in amounts.items():
            asked[key] += amount
    return found


def _beyond_month(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of projects that have used up their month. What runs goes on."""
    words = {}
    for name, part in terms.parts.items():
        if part.slot_hours is not None and part.used_hours >= part.slot_hours:
            sentence = f"Project {name} has used the {part.slot_hours:g} slot-hours that it has in a month."
            words[name] = Reason(WaitCode.QUOTA, sentence)
        elif part.budget is not None and part.spent >= part.budget:
            sentence = f"Project {name} has spent the {part.budget:,.10g} that it may in a month: {part.spent:,.2f}."
            words[name] = Reason(WaitCode.BUDGET, sentence)
    return {one.run: words[one.project] for one in requests if one.project in words}


def has_slot_limit(request: Request, terms: Terms) -> bool:
    part = terms.parts.get(request.project)
    return part is not None and part.room(request.person) is not None


def within(request: Request, terms: Terms) -> Request:
    """Return the request of an elastic run that starts again, and counts with its least number of nodes, with the
    numbers of nodes that its project's limits have room for."""
    part = terms.parts.get(request.project)
    if part is None or (room := part.room(request.person)) is None:
        return request
    most = max(request.num_nodes, (room + request.whole_slots) // request.slots_per_node)
    return replace(request, node_counts=tuple(number for number in request.node_counts if number <= most))


def _elsewhere(requests: Sequence[Request], terms: Terms) -> Refusals:
    """Return the refusals of requests of projects that are pinned to other regions."""
    return {one.run: Reason(WaitCode.REGION, why) for one in requests if (why := terms.elsewhere.get(one.project))}


# A later one is asked about what those before it let pass.
RULES = (_trials, _not_allowed, _elsewhere, _beyond_month, _beyond_at_once)


def limited() -> QuerySet[Project]:
    """The projects with a limit that holds over all clusters."""
    return Project.objects.exclude(
        slots=None, runs_at_once=None, slots_per_person=None, slot_hours_month=None, budget_month=None
    )


def terms_of(cluster: Cluster, now: datetime) -> Terms:
    parts = parts_of(limited(), now)
    if not cluster.slot_hour_price:  # what runs there costs nothing
        parts = {name: replace(one, budget=None) for name, one in parts.items()}
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
        parts=parts,
    )


def parts_of(projects: QuerySet[Project], now: datetime) -> dict[str, Part]:
    """Return what each of the projects may have, and has."""
    rows = list(projects.values_list("name", *NEAR))
    held = held_of([name for name, *_ in rows]) if rows else {}
    used = used_this_month(now, held) if rows else {}
    return {
        name: Part(
            slots, held[name].slots, hours, used[name][0], runs, len(held[name].runs), per_person,
            held[name].by_person, budget, used[name][1],
        )
        for name, slots, runs, per_person, hours, budget in rows
    }  # fmt: skip


def write_notices(now: datetime) -> None:
    """Write down, once a month for each limit that is used to four fifths or more, what owners read on their home."""
    parts, first = parts_of(limited(), now), first_of_month(now)
    for project in Project.objects.filter(name__in=parts):
        near, known = parts[project.name].near(project.name), project.notices
        new = {name: LimitNotice(now, near[name]) for name in near}
        if new := {name: one for name, one in new.items() if name not in known or known[name].at < first}:
            Project.objects.filter(pk=project.pk).update(limit_notices=to_builtins(known | new))


def _held_back(cluster: Cluster) -> dict[str, Reason]:
    """Return the trials that wait until another one of their sweep has left its slots: they are queued early, so that
    the next one is there by then. A run that was placed before goes on."""
    queued = Trial.objects.filter(run__cluster=cluster, run__status=Status.QUEUED, run__fence=0)
    rows = queued.order_by("number").values_list("sweep_id", "run_id")
    waiting = grouped((sweep_id, str(run_id)) for sweep_id, run_id in rows)
    found: dict[str, Reason] = {}
    for sweep in Sweep.objects.filter(pk__in=waiting):
        if sweep.parsed.ahead:
            found |= _of_sweep(sweep, waiting[sweep.pk])
    return found


def _of_sweep(sweep: Sweep, run_ids: list[str]) -> dict[str, Reason]:
    if sweep.status == SweepStatus.PAUSED:
        return dict.fromkeys(run_ids, Reason(WaitCode.SWEEP, f"Sweep {sweep.name} is paused."))
    parallel = sweep.parsed.budget.parallel
    # Not by their status: a run whose last records are on their way has left its slots.
    holders = HeldSlot.objects.filter(placement__attempt__run__trial__sweep=sweep).values("placement__attempt__run")
    again = Q(trial__sweep=sweep, status__in=(Status.RECOVERING, Status.RESIZING))
    room = max(0, parallel - Run.objects.filter(Q(pk__in=holders) | again).count())
    sentence = f"Waiting for another trial of sweep {sweep.name} to end: {parallel} run at a time."
    return dict.fromkeys(run_ids[room:], Reason(WaitCode.SWEEP, sentence))

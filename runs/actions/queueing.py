"""Parts that projects have of the clusters, and who goes first in a queue."""

from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.core.validators import slug_re
from django.db import transaction

from runs.models import Project, Run, User
from runs.rights.access import Permission, Someone, can, require, require_administrator
from runs.rights.audit.recording import describe
from runs.tasks import schedule_soon
from runs.values.refused import Refused
from trainyard.contract.base import SpecDocument
from trainyard.spec.values.durations import LONGEST_TIME_S, time_limit_s, words_of
from trainyard.spec.values.fields import checked_priority, priority_of

MOST = 1_000_000


class Bounds(NamedTuple):
    """Values that a limit may have. ``what``: how a sentence about them begins."""

    what: str
    most: float
    is_above_0: bool = False

    def problem(self, value: Any) -> str:
        """Say why the number is no limit; empty where it is one, or None."""
        if value is None or (0 <= value <= self.most and (value or not self.is_above_0)):
            return ""
        shown = f"{value:g}" if isinstance(value, float) else str(value)[:20]
        return f"{self.what} {'above 0 and at most' if self.is_above_0 else '0 to'} {self.most:,}, not {shown}."


# In the order of the form.
BOUNDS = {
    "weight": Bounds("A weight is", MOST, is_above_0=True),
    "group_weight": Bounds("A weight is", MOST, is_above_0=True),
    "guaranteed_slots": Bounds("A number of slots is", MOST),
    "slots": Bounds("A number of slots is", MOST),
    "slots_per_person": Bounds("A number of slots is", MOST),
    "runs_at_once": Bounds("A number of runs is", MOST),
    "slot_hours_month": Bounds("Slot-hours are", MOST**2),
    "budget_month": Bounds("A budget is", MOST**2),
    "max_run_hours": Bounds("The hours of a run are", LONGEST_TIME_S // 3600, is_above_0=True),
    "max_priority": Bounds("A priority is", 100),
}
LIMITS = ("share_group", *BOUNDS)


def set_limits(*, actor: User, project: Project, **limits: Any) -> Project:
    """Give the project its part of the clusters, by all of LIMITS: for administrators. What runs goes on, whatever the
    limits are then. The weight of its group is that of all its projects; None: as it was. Raises ValidationError by
    field."""
    require_administrator(actor)
    problems = {name: words for name, one in BOUNDS.items() if (words := one.problem(limits[name]))}
    slots, guaranteed = limits["slots"], limits["guaranteed_slots"]
    if slots is not None and slots < guaranteed:
        problems["guaranteed_slots"] = f"{guaranteed} are more than the {slots} that it may hold at once."
    group, weight = limits["share_group"], limits["group_weight"]
    if group and (len(group) > 60 or not slug_re.match(group)):
        problems["share_group"] = f"A group has a name of at most 60 letters, digits, - and _, not {group[:20]!r}."
    if weight is not None and not group:
        problems.setdefault("group_weight", f"{weight:g} would be the weight of a group, and none is named.")
    if problems:
        raise ValidationError(problems)
    with transaction.atomic():
        rows = Project.objects.select_for_update(no_key=True).order_by("pk")  # all: a group has one weight
        known = dict(rows.values_list("share_group", "group_weight"))
        limits["group_weight"] = (weight or known.get(group) or 1.0) if group else None
        describe(before={name: getattr(project, name) for name in LIMITS}, after=limits)
        for name in LIMITS:
            if getattr(project, name) != limits[name]:  # another limit is another notice
                project.limit_notices.pop(name, None)
            setattr(project, name, limits[name])
        project.save(update_fields=(*LIMITS, "limit_notices"))
        if group:
            Project.objects.filter(share_group=group).update(group_weight=limits["group_weight"])
    for cluster_id in project.clusters.values_list("pk", flat=True):
        schedule_soon(cluster_id)
    return project


def set_priority(*, actor: User, run: Run, priority: int | str) -> Run:
    """Have a run that waits, or trains, go before others, or after them. Raises ValidationError where it is higher than
    the project allows, Refused where the run is over."""
    require(actor, run.project, Permission.RUNS_LAUNCH)
    try:
        number = priority_of(checked_priority(priority))
    except ValueError as error:
        raise ValidationError({"priority": f"A priority {error}."}) from error
    if sentence := why_not_so_high(actor, run.project, number):
        raise ValidationError({"priority": sentence})
    if run.is_final or run.is_local:
        raise Refused("already-ended", f"Run {run.name} waits for no nodes: {run.status}.")
    describe(before={"priority": run.priority}, after={"priority": number})
    Run.objects.filter(pk=run.pk).update(priority=number)
    run.priority = number
    run.record("priority", f"{actor} gave it the priority {number}.", actor=actor)
    if run.cluster_id is not None:
        schedule_soon(run.cluster_id)
    return run


def why_not_so_high(user: Someone, project: Project, priority: int) -> str:
    """Say why the person may not ask for the priority in the project; empty where they may."""
    if priority <= project.max_priority or can(user, project, Permission.MEMBERS_MANAGE):
        return ""
    return f"{priority} is higher than {project.max_priority}, the highest that members of project {project.name} have."


def why_too_long(project: Project, spec: SpecDocument) -> str:
    """Say what is wrong with ``limits.time`` of the resolved spec in the project; empty where nothing is."""
    if project.max_run_hours is None:
        return ""
    limit, most = time_limit_s(spec), project.max_run_hours * 3600
    rule = f"a run of project {project.name} may take {words_of(most)}"
    if limit is None:
        return f"must be set: {rule}"
    return f"{words_of(limit)} is too long: {rule}" if limit > most else ""

"""Parts that projects have of the clusters, and who goes first in a queue."""

from math import isfinite

from django.core.exceptions import ValidationError

from runs.models import Project, Run, User
from runs.rights.access import Permission, Someone, can, require, require_administrator
from runs.rights.audit.recording import describe
from runs.tasks import schedule_soon
from runs.values.refused import Refused
from trainyard.spec.values.fields import checked_priority, priority_of

LIMITS = ("slots", "guaranteed_slots", "weight", "slot_hours_month", "max_priority")
MOST = 1_000_000


def set_limits(
    *,
    actor: User,
    project: Project,
    slots: int | None,
    guaranteed_slots: int,
    weight: float,
    slot_hours_month: float | None,
    max_priority: int,
) -> Project:
    """Give the project its part of the clusters: for administrators. What runs goes on, whatever the limits are then.
    Raises ValidationError by field."""
    require_administrator(actor)
    problems = {}
    if not (isfinite(weight) and 0 < weight <= MOST):
        problems["weight"] = f"A weight is above 0 and at most {MOST:,}, not {weight:g}."
    for name, number in (("slots", slots), ("guaranteed_slots", guaranteed_slots)):
        if number is not None and not 0 <= number <= MOST:
            problems[name] = f"A number of slots is 0 to {MOST:,}, not {number}."
    if slots is not None and slots < guaranteed_slots:
        problems["guaranteed_slots"] = f"{guaranteed_slots} are more than the {slots} that it may hold at once."
    if slot_hours_month is not None and not (isfinite(slot_hours_month) and slot_hours_month >= 0):
        problems["slot_hours_month"] = f"Slot-hours are 0 or more, not {slot_hours_month:g}."
    if not 0 <= max_priority <= 100:
        problems["max_priority"] = f"A priority is 0 to 100, not {max_priority}."
    if problems:
        raise ValidationError(problems)
    values = (slots, guaranteed_slots, weight, slot_hours_month, max_priority)
    describe(before={name: getattr(project, name) for name in LIMITS}, after=dict(zip(LIMITS, values, strict=True)))
    for name, value in zip(LIMITS, values, strict=True):
        setattr(project, name, value)
    project.save(update_fields=LIMITS)
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

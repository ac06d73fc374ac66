"""Rules of notices, by whoever they are of, and one's own notices."""

import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils import timezone

from runs.models import Following, Notice, NoticeRule, Project, Run, User
from runs.models.notices import INFO, NUMBERS, OF_PERSONS, NoticeKind, Where
from runs.notices.destinations import checked
from runs.notices.making import make_bells
from runs.rights.access import NotFound, Permission, require, require_account, visible_clusters, visible_projects
from runs.rights.secrets.sealed import notice_place, seal_text
from runs.values.ids import new_id
from runs.values.refused import Refused

MOST_RULES, MOST = 20, 100_000
EVERY = {"": "at once", "hour": "together, every hour", "day": "together, every day"}
CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def visible_notices(user: User) -> QuerySet[Notice]:
    """Return the notices on the person's page, of what they may still see."""
    projects, found = visible_projects(user), Notice.objects.filter(rule__owner=user, rule__where=Where.PAGE)
    if not user.is_superuser or user.token is not None:
        found = found.filter(Q(run=None) | Q(run__project__in=projects), Q(project=None) | Q(project__in=projects))
    return found.filter(Q(cluster=None) | Q(cluster__in=visible_clusters(user)))


def read_notices(*, actor: User, notice_id: str = "") -> int:
    """Mark the notice as read, or all; return how many were not."""
    unread = visible_notices(actor).filter(state="unread")
    return (unread.filter(pk=notice_id) if notice_id.isdecimal() else unread).update(state="read")


def follow_run(*, actor: User, run: Run, is_muted: bool | None = False) -> Run:
    """Have the person get all notices of the run at each of their places; muted: none; None: by their rules."""
    require(actor, run.project, Permission.RUNS_READ)
    require_account(actor, Permission.ACCOUNT_MANAGE)
    if actor.is_service:
        raise Refused("no-bell", "A service account gets no notices, so it neither follows nor mutes a run.")
    if is_muted is None:
        run.followings.filter(user=actor).delete()
    else:
        make_bells([actor.pk])
        Following.objects.update_or_create(user=actor, run=run, defaults={"is_muted": is_muted})
    return run


def set_quiet_hours(*, actor: User, begins: str, ends: str, zone: str, spares_errors: bool) -> None:
    """Have the person sent nothing between these times, or errors alone; none where both are empty. ValidationError."""
    given = {"begins": begins, "ends": ends, "zone": zone, "spares_errors": spares_errors}
    if begins or ends:
        for name in ("begins", "ends"):
            if not CLOCK.fullmatch(str(given[name])):
                raise ValidationError({name: f"It must be a time such as 22:00, not {given[name]!r}."})
        if begins == ends:
            raise ValidationError({"ends": "Quiet hours begin and end at different times."})
        if zone not in available_timezones():
            raise ValidationError({"zone": f"It must be a time zone such as Europe/Berlin, not {zone!r}."})
    actor.quiet_hours = given if begins or ends else None
    actor.save(update_fields=["quiet_hours"])
    held = Notice.objects.filter(rule__owner=actor, state="held")
    held.exclude(rule__every="").update(state="waiting", next_at=timezone.now())  # and held anew for its digest
    held.filter(rule__every="").update(next_at=timezone.now())  # and held anew, or sent together


def notice_rules(*, actor: User, project: Project | None) -> QuerySet[NoticeRule]:
    """Return the person's own rules, of which the bell is always one, or the project's, for its owners."""
    if project is not None:
        require(actor, project, Permission.OWNERS_MANAGE)
        return project.notice_rules.all()
    make_bells([actor.pk])
    return actor.notice_rules.all()


def get_notice_rule(*, actor: User, rule_id: str) -> NoticeRule:
    """Return the rule, of the person or of a project that they own. Raises NotFound and Forbidden."""
    rule = NoticeRule.objects.filter(pk=rule_id).select_related("project").first()
    if rule is None or not notice_rules(actor=actor, project=rule.project).filter(pk=rule_id).exists():
        raise NotFound(f"There is no rule {rule_id!r} of yours.")
    return rule


def save_notice_rule(
    *, actor: User, project: Project | None, where: str, kinds: Mapping[Any, object], only_mine: bool,
    destination: str | None, every: str = "", rule: NoticeRule | None = None,
) -> NoticeRule:  # fmt: skip
    """Make a rule, or change this one, or what the person's bell rings for. ``destination`` None: it stays. Raises
    ValidationError."""
    rules = notice_rules(actor=actor, project=project)
    numbers = dict[str, int]()
    for kind, number in kinds.items():
        text = str(NUMBERS.get(kind, 0) if number in (None, "") else number)
        numbers[kind] = int(text[:9]) if text.isdecimal() else -1
        if kind not in NoticeKind or not 0 <= numbers[kind] <= MOST:
            raise ValidationError({"kinds": f"There is no kind of notice {kind!r} with the number {number!r}."})
    if where not in Where or (project is not None and where in OF_PERSONS):
        raise ValidationError({"where": f"It must be a place such as webhook, not {where!r}."})
    if every not in EVERY:
        raise ValidationError({"every": f"It must be empty, hour or day, not {every!r}."})
    if where == Where.PAGE:
        rule = rules.get(where=where)
    elif rule is None and len(rules) >= MOST_RULES:
        raise ValidationError({"where": f"There are {MOST_RULES} rules already: delete one."})
    rule = rule or NoticeRule(where=where, project=project, owner=actor if project is None else None)
    if destination is not None:
        try:
            text, rule.shown = checked(where, destination.strip(), is_person=project is None)
        except ValidationError as error:
            raise ValidationError({"destination": error.messages}) from None
        rule.locked = seal_text(notice_place(rule.pk), text) if text else ""
        rule.key = text.partition("\n")[2] if where == Where.WEBHOOK else ""
    rule.kinds, rule.every, rule.only_mine = numbers, every, only_mine and project is None
    rule.save()
    return rule


def do_notice_rule(*, actor: User, rule_id: str, verb: str) -> str:
    """Delete the rule, send again what failed, or send a test. Return what was done."""
    rule = get_notice_rule(actor=actor, rule_id=rule_id)
    now = timezone.now()
    if verb == "delete":
        rule.delete()
        return "Deleted the rule, with its notices."
    if verb == "again":
        num = rule.notices.filter(state="failed").update(state="waiting", tries=0, next_at=now)
        return f"{num} of its notices are sent again."
    about = {"what": "This is a test: notices of this rule get here.", "place": "Trainyard", "path": "/notices/"}
    state = "unread" if rule.where == Where.PAGE else "waiting"
    rule.notices.create(cause=f"test/{new_id()}", since=now, state=state, level=INFO, **about)
    return "A test is on its way."

"""Rules of notices, by whoever they are of, and one's own notices."""

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils import timezone

from runs.models import Notice, NoticeRule, Project, User
from runs.models.notices import NUMBERS, NoticeKind, Where
from runs.notices.destinations import checked
from runs.rights.access import NotFound, Permission, require, visible_clusters
from runs.rights.access.roles import visible_project_ids
from runs.rights.secrets.sealed import notice_place, seal_text
from runs.values.ids import new_id

MOST_RULES, MOST = 20, 100_000


def visible_notices(user: User) -> QuerySet[Notice]:
    """Return the notices on the person's page, of what they may still see."""
    found, ids = Notice.objects.filter(rule__owner=user, rule__where=Where.PAGE), visible_project_ids(user)
    if ids is not None:
        found = found.filter(Q(project=None) | Q(project__in=ids), Q(run=None) | Q(run__project__in=ids))
    return found.filter(Q(cluster=None) | Q(cluster__in=visible_clusters(user).values("pk")))


def read_notices(*, actor: User, notice_id: int | None = None) -> int:
    """Mark the notice as read, or all; return how many were not."""
    own = visible_notices(actor) if notice_id is None else visible_notices(actor).filter(pk=notice_id)
    return own.filter(state="unread").update(state="read")


def notice_rules(*, actor: User, project: Project | None) -> QuerySet[NoticeRule]:
    """Return the person's own rules, or the project's, for its owners."""
    if project is None:
        return NoticeRule.objects.filter(owner=actor)
    require(actor, project, Permission.OWNERS_MANAGE)
    return NoticeRule.objects.filter(project=project)


def save_notice_rule(
    *, actor: User, project: Project | None, where: str, kinds: Mapping[str, object], only_mine: bool, destination: str
) -> tuple[NoticeRule, str]:
    """Make a rule, or change what the person's bell rings for. Return it, and the key by which a webhook is signed,
    which is shown this once. Raises ValidationError."""
    rules = notice_rules(actor=actor, project=project)
    numbers = {kind: str(kinds[kind] or NUMBERS.get(NoticeKind(kind), 0)) for kind in kinds if kind in NoticeKind}
    wrong = [kind for kind in kinds if not (text := numbers.get(kind, "")).isdigit() or int(text[:9]) > MOST]
    if wrong:
        raise ValidationError(
            {"kinds": f"There is no kind of notice {wrong[0]!r} with the number {kinds[wrong[0]]!r}."}
        )
    if where not in Where or (project is not None and where == Where.PAGE):
        raise ValidationError({"where": f"must be a place such as webhook, not {where!r}"})
    if where != Where.PAGE and len(rules) >= MOST_RULES:
        raise ValidationError({"where": f"There are {MOST_RULES} rules already: delete one."})
    try:
        text, shown = checked(where, destination.strip(), is_person=project is None)
    except ValidationError as error:
        raise ValidationError({"destination": error.messages}) from None
    rule = (rules.filter(where=Where.PAGE).first() if where == Where.PAGE else None) or NoticeRule(where=where)
    rule.owner, rule.project = (actor, None) if project is None else (None, project)
    rule.kinds, rule.only_mine = {kind: int(text) for kind, text in numbers.items()}, only_mine
    rule.locked, rule.shown = seal_text(notice_place(rule.pk), text) if text else "", shown
    rule.save()
    return rule, text.partition("\n")[2] if where == Where.WEBHOOK else ""


def do_notice_rule(*, actor: User, rule_id: str, verb: str) -> str:
    """Delete the rule, send a test by it, or send again what failed. Return what was done."""
    rule = NoticeRule.objects.filter(pk=rule_id).select_related("project", "owner").first()
    if rule is None or not notice_rules(actor=actor, project=rule.project).filter(pk=rule_id).exists():
        raise NotFound(f"There is no rule {rule_id!r} of yours.")
    now = timezone.now()
    if verb == "delete":
        rule.delete()
        return "Deleted the rule, with its notices."
    if verb == "again":
        num = rule.notices.filter(state="failed").update(state="waiting", tries=0, next_at=now)
        return f"{num} of its notices are sent again."
    what, state = "This is a test: notices of this rule get here.", "unread" if rule.where == Where.PAGE else "waiting"
    rule.notices.create(
        cause=f"test/{new_id()}", what=what, place="Trainyard", since=now, path="/notices/", state=state
    )
    return "A test is on its way."

"""Notices are made here: of new events of runs, each once, and of states of things that have no history.

An event is written together with a row that says that it is new; the row goes in the transaction that makes the
notices. So none is missed, whoever is killed, and none is made twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from runs.models import Event, Following, NewEvent, Node, Notice, NoticeRule, Preflight, Project, Run, Sweep, User
from runs.models.indexes import one_of
from runs.models.notices import ALERT_LEVELS, ENDS, LEVELS, NUMBERS, OF_BELLS, OVER, WARNING, K, Where, kind_of
from runs.privacy.retention import usage_of
from runs.rights.access import visible_clusters, visible_projects
from runs.serving import broadcast
from runs.values.columns import CheckState
from runs.values.status import Status
from trainyard.contract.machines import NEARLY_FULL
from trainyard.contract.statuses import SWEEP_FINAL
from trainyard.formats.figures import size

log = structlog.get_logger(__name__)

AT_ONCE = 200
HOUR, DAY, KEPT = timedelta(hours=1), timedelta(days=1), timedelta(days=90)
WAITING = ("reason_sentence", "created_at")  # of a run: a long queue is not read whole
OF_NODES = (K.FAILED, K.LOST, K.STALLED)  # what a lost node brings about; others have their own cause
GATHER = timedelta(seconds=1)  # runs of one lost node are in one message


class Signal(NamedTuple):
    """Something that happened, or is over: fields of its notices. ``by``: who launched it; ``number``: see NUMBERS."""

    fields: dict[str, Any]
    by: int | None = None
    number: int = 0
    is_over: bool = False


def may_get(rule: NoticeRule, project_id: str | None, cluster_id: str | None) -> bool:
    """Return whether whoever the rule is of may read now what is in the project, else what the cluster has."""
    if rule.project is not None:
        own = rule.project.clusters.filter(pk=cluster_id)
        return project_id == rule.project_id if project_id is not None else own.exists()
    assert rule.owner is not None, "a rule is a person's or a project's"
    if project_id is not None:
        return visible_projects(rule.owner).filter(pk=project_id).exists()
    return visible_clusters(rule.owner).filter(pk=cluster_id).exists()


def make_bells(user_ids: Iterable[int | None]) -> None:
    """See that each of these people has a bell, which rings for their own runs at first."""
    people = User.objects.filter(pk__in=[pk for pk in user_ids if pk], service_of=None).exclude(
        notice_rules__where=Where.PAGE
    )
    bells = [NoticeRule(owner=one, where=Where.PAGE, kinds=OF_BELLS, only_mine=True) for one in people]
    NoticeRule.objects.bulk_create(bells, ignore_conflicts=True)


def make_of_events(now: datetime) -> int:
    """Make the notices of the oldest new events, and return of how many."""
    with transaction.atomic():
        new = list(NewEvent.objects.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
        events = list(Event.objects.filter(pk__in=new).select_related("run__project").order_by("pk"))
        if not _is_made(events, now):
            for event in (event for event in events if not _is_made([event], now)):
                log.error("notice.not_made", event_id=event.pk, run=event.run_id)
        NewEvent.objects.filter(pk__in=new).delete()
    return len(new)


def _is_made(events: Sequence[Event], now: datetime) -> bool:
    """Make their notices, or none of them where one cannot be made. A database that is away is asked again later."""
    try:
        with transaction.atomic():
            _spread([_of_event(event, now) for event in events], now, counts=True)
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # a bug, or a value that no column holds: the others' notices do not wait for it
        log.exception("notice.events_failed", num=len(events))
        return False
    return True


def make_of_states(now: datetime) -> None:
    """Make the notices of what lasts, or ended within a day: each once, since they are known by their cause."""
    with transaction.atomic():
        _spread([*_sweeps(now), *_limits(now), *_waits(now), *_nodes(now)], now, counts=False)
        Notice.objects.filter(since__lt=now - KEPT).exclude(state__in=("waiting", "held")).delete()


def bounded_cause(cause: str) -> str:
    """Return the cause as its column holds it, behind OVER too: of a longer one the beginning, and a digest of all."""
    room = Notice.MAX_CAUSE - len(OVER)
    return cause if len(cause) <= room else f"{cause[: room - 65]}/{sha256(cause.encode()).hexdigest()}"


def _spread(signals: Sequence[Signal], now: datetime, *, counts: bool) -> None:
    """Write a notice for each rule that wants the signal and whose owner may read what it is about."""
    if not signals:
        return
    for one in signals:
        one.fields.update(cause=bounded_cause(one.fields["cause"]), place=one.fields["place"][:300])
    make_bells({one.by for one in signals})
    rules, may = list(NoticeRule.objects.select_related("owner", "project")), cache(may_get)
    causes = {one.fields["cause"] for one in signals}
    known = set(Notice.objects.filter(cause__in=causes).values_list("rule_id", "cause"))
    of_runs = Following.objects.filter(run__in={one.fields["run_id"] for one in signals if "run_id" in one.fields})
    words = of_runs.values_list("user_id", "run_id", "is_muted")
    is_muted: dict[tuple[int | None, str | None], bool] = {(user, run): muted for user, run, muted in words}
    made: dict[tuple[str, str], Notice] = {}
    for one in signals:
        cause, run = one.fields["cause"], one.fields.get("run_id")
        kind = cause.partition("/")[0]
        one.fields["level"] = one.number if kind == K.ALERT else LEVELS.get(kind, WARNING)
        if one.is_over:  # those who page people are asked to do so no more
            begun = known | made.keys()
            for rule in (rule for rule in rules if rule.where == Where.PAGERDUTY and (rule.pk, cause) in begun):
                made[rule.pk, OVER + cause] = Notice(rule=rule, **{"next_at": now, **one.fields, "cause": OVER + cause})
            continue
        for rule in (rule for rule in rules if _wants(rule, one, is_muted.get((rule.owner_id, run)))):
            key = rule.pk, cause
            if key in made:
                made[key].count += counts
            elif key in known and counts:
                Notice.objects.filter(rule=rule, cause=cause).update(count=F("count") + 1)
            elif key not in known and may(rule, one.fields.get("project_id"), one.fields.get("cluster_id")):
                state = "unread" if rule.where == Where.PAGE else "waiting"
                made[key] = Notice(rule=rule, state=state, **{"next_at": now, **one.fields})
    Notice.objects.bulk_create(made.values(), ignore_conflicts=True)
    if made:
        transaction.on_commit(lambda: broadcast.notices_changed({one.run_id for one in made.values() if one.run_id}))


def _wants(rule: NoticeRule, one: Signal, is_muted: bool | None) -> bool:
    """Return whether the rule is for the signal. ``is_muted``: its owner follows the run (False) or mutes it (True)."""
    kind, since = one.fields["cause"].partition("/")[0], one.fields["since"]
    if is_muted is not None:
        return not is_muted and (kind != K.WAITS or one.number >= NUMBERS[K.WAITS])
    is_theirs = not rule.only_mine or one.by is None or one.by == rule.owner_id
    is_new = kind in (K.WAITS, K.NODE) or since >= rule.created_at or "run_id" in one.fields
    return kind in rule.kinds and one.number >= rule.kinds[kind] and is_theirs and is_new


def _of_event(event: Event, now: datetime) -> Signal:
    """Return what the event is a notice of. Runs whose node is out of contact have one cause."""
    ended = next((kind for kind, code in ENDS.items() if code == event.code), None)
    kind, run, number, fields = ended or kind_of(event), event.run, 0, {}
    label = event.data.get("metric") or event.data.get("label") or ""
    cause = f"{kind}/{run.pk}/{event.attempt_id or ('' if kind == K.ALERT else event.pk)}/{label}"
    nodes = Node.objects.filter(placements__attempt=event.attempt_id) if event.attempt_id else ()
    away = next((node for node in nodes if node.seen_at and not node.is_in_contact(now)), None)
    if kind in ENDS:  # each time anew
        cause += str(run.events.filter(code=ENDS[kind], attempt=event.attempt_id, pk__lt=event.pk).count() or "")
    if kind == K.RESTARTS:
        number = run.events.filter(code=event.code, at__gt=event.at - HOUR, at__lte=event.at).count()
        cause = f"{kind}/{run.pk}/{event.at:%Y-%m-%dT%H}"
    elif kind == K.ALERT:
        number = ALERT_LEVELS[event.data["level"]]
    elif kind in OF_NODES and away is not None:
        cause, fields = f"{kind}/{run.project_id}/{away.pk}/{away.seen_at}", {"next_at": now + GATHER}
    place = f" on {away.name}" if away else ""
    return _of_run(run, cause, event.sentence, event.at, number, place=place, **fields)._replace(is_over=bool(ended))


def _of_run(
    run: Run, cause: str, what: str, since: datetime, number: int, *, place: str = "", **more: datetime
) -> Signal:
    fields = {"project_id": run.project_id, "run_id": run.pk, "path": f"/runs/{run.pk}/", "since": since, **more}
    where = f"run {run.name} ({run.pk}) of project {run.project.name}{place}"
    return Signal({"cause": cause, "what": what, "place": where, **fields}, run.created_by_id, number)


def _sweeps(now: datetime) -> Iterator[Signal]:
    for one in Sweep.objects.filter(ended_at__gt=now - DAY, status__in=SWEEP_FINAL).select_related("project"):
        about = {"place": f"sweep {one.name} of project {one.project.name}", "project_id": one.project_id}
        words = {"cause": f"sweep/{one.pk}/{one.ended_at}", "what": f"It {one.status.lower()}. {one.reason_sentence}"}
        yield Signal({**about, **words, "path": f"/sweeps/{one.pk}/", "since": one.ended_at}, one.created_by_id)


def _limits(now: datetime) -> Iterator[Signal]:
    for one in Project.objects.all():
        said = {f"{name}/{notice.at}": (notice.at, notice.sentence) for name, notice in one.notices.items()}
        if one.quota_bytes and (sentence := usage_of(one).sentence):
            said[f"storage/{now:%Y-%m}"] = now, sentence
        about = {"place": f"project {one.name}", "path": f"/people/{one.pk}/data/", "project_id": one.pk}
        for key, (at, what) in said.items():
            yield Signal({**about, "cause": f"limits/{one.pk}/{key}", "what": what, "since": at})


def _waits(now: datetime) -> Iterator[Signal]:
    numbers = [rule.kinds[K.WAITS] for rule in NoticeRule.objects.filter(kinds__has_key=K.WAITS)]
    queued = Run.objects.filter(one_of("status", [Status.QUEUED]), ended_at=None, local_id=None)
    shown = queued.select_related("project").only("project__name", "name", "created_by", "fence", *WAITING)
    if Following.objects.filter(is_muted=False, run__in=queued).exists():
        numbers.append(NUMBERS[K.WAITS])
    for run in shown.filter(created_at__lte=now - timedelta(minutes=min(numbers))) if numbers else ():
        number = int((now - run.created_at).total_seconds() // 60)
        yield _of_run(run, f"waits/{run.pk}/{run.fence}", run.reason_sentence, run.created_at, number)


def _nodes(now: datetime) -> Iterator[Signal]:
    """Yield nodes that are out of contact or whose disk is nearly full, and what nodes did not pass in a preflight."""
    for node in Node.objects.present().filter(is_draining=False, kind=Node.Kind.STAYS, seen_at__gt=now - DAY):
        about = {"place": f"node {node.name}", "path": f"/nodes/{node.pk}/", "cluster_id": node.cluster_id}
        health = node.health_now
        if not node.is_in_contact(now):
            what = f"Node {node.name} is out of contact. Nothing is started there."
            yield Signal({**about, "cause": f"node/{node.pk}/{node.seen_at}", "what": what, "since": node.seen_at})
        elif health and health.disk_bytes and (health.disk_used_bytes or 0) >= NEARLY_FULL * health.disk_bytes:
            free = size(health.disk_bytes - (health.disk_used_bytes or 0))
            what = f"Of the disk of node {node.name} {free} of {size(health.disk_bytes)} are free."
            yield Signal({**about, "cause": f"disk/{node.pk}/{now:%Y-%m-%d}", "what": what, "since": now})
    for one in Preflight.objects.filter(ended_at__gt=now - HOUR):
        for check in (check for check in one.checks if check.state == CheckState.FAIL):
            cause = f"preflight/{one.cluster_id}/{check.node}/{check.name}/{one.ended_at:%Y-%m-%d}"
            about = {"place": f"node {check.node}", "path": "/nodes/", "cluster_id": one.cluster_id}
            yield Signal({**about, "cause": cause, "what": check.sentence, "since": one.ended_at})

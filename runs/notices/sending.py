"""Notices are sent here: from control, beside its ticks, so that a slow receiver keeps nothing waiting.

Of each rule the oldest goes first, and the next follows only once it was taken or refused: order is kept, however long
the receiver is away. Whoever sends takes the notice for LEASE first. If control is killed between sending and marking,
the notice is sent once more after that, with the same id.

Notices that are ``held`` wait for the end of quiet hours, or for their digest, and go out as one message.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import close_old_connections, connections
from django.db.models import Min
from django.utils import timezone

from runs.models import Following, Notice, NoticeRule
from runs.models.notices import ERROR, Where
from runs.notices.browser_push import GONE
from runs.notices.destinations import NotTaken, send
from runs.notices.making import make_of_events, make_of_states, may_get
from runs.rights.secrets.key_stores import KeyProblem
from runs.serving.clock import Clock
from runs.values.columns import next_time

log = structlog.get_logger(__name__)

EVERY_S, STATES_EVERY_S = 0.5, 10.0
SETTLING_S = 30.0  # after the start, until nodes have reported to this control
LOCK_S = 60.0
LEASE = timedelta(seconds=60)  # longer than it takes to send one
FIRST_WAIT_S, LONGEST_WAIT_S, MAX_TRIES = 2.0, 300.0, 300  # a day
AT_A_TIME, OF_ONE = 8, 2  # receivers, and of them at most of one person or project
OF_DAY, HOUR = "08:00", timedelta(hours=1)  # when a digest of each day is sent
TOGETHER: dict[str, int] = {Where.DISCORD: 6, Where.PAGERDUTY: 1}  # notices that one message holds; elsewhere 50


def due(now: datetime) -> set[str]:
    """Return the rules whose oldest notice that waits may be sent now, or that held some until now."""
    heads = Notice.objects.filter(state="waiting").order_by().values("rule").annotate(head=Min("pk"))
    waiting, held = Notice.objects.filter(pk__in=heads.values("head")), Notice.objects.filter(state="held")
    return {key for some in (waiting, held) for (key,) in some.filter(next_at__lte=now).values_list("rule_id")}


def send_of(rule_id: str, now: datetime) -> None:
    """Send what waits for the destination of this rule, in order, until one does not get there."""
    for rule in NoticeRule.objects.filter(pk=rule_id).select_related("owner"):
        _hold(rule, now)
    waiting = Notice.objects.filter(rule=rule_id, state="waiting").order_by("pk")
    about = waiting.select_related("rule__owner", "rule__project", "run")
    while (head := about.first()) is not None and head.next_at <= now:
        some = [head] if head.batch is None else list(about.filter(batch=head.batch))
        if not waiting.filter(pk__in=[one.pk for one in some], next_at=head.next_at).update(next_at=now + LEASE):
            return  # another process has it
        refused = {one.pk: why for one in some if (why := _why_not(one))}
        for key, why in refused.items():
            waiting.filter(pk=key).update(state="failed", problem=why)
        some = [one for one in some if one.pk not in refused]
        changes = _send(some, now) if some else {}
        waiting.filter(pk__in=[one.pk for one in some]).update(tries=head.tries + 1, **changes)
        if "next_at" in changes:
            return


def _hold(rule: NoticeRule, now: datetime) -> None:
    """Put together what was held until now, and hold what is due but not to be sent yet; a test is never held."""
    over = list(rule.notices.filter(state="held", next_at__lte=now).order_by("pk").values_list("pk", flat=True))
    size = TOGETHER.get(rule.where, 50)
    for some in (over[start : start + size] for start in range(0, len(over), size)):
        rule.notices.filter(pk__in=some).update(state="waiting", next_at=now, batch=some[0])
    waiting = rule.notices.filter(state="waiting", next_at__lte=now).exclude(cause__startswith="test/")
    quiet = rule.owner.quiet if rule.owner is not None else None
    if quiet and (until := quiet.until(now)):
        kept = waiting.exclude(level=ERROR) if quiet.spares_errors else waiting
        kept.update(state="held", next_at=until)
    elif rule.every:
        hour = (now + HOUR).replace(minute=0, second=0, microsecond=0)
        day = next_time(OF_DAY, quiet.zone if quiet else "UTC", now)
        waiting.filter(batch=None).update(state="held", next_at=day if rule.every == "day" else hour)


def _why_not(one: Notice) -> str:
    """Say why its reader does not get it any more; empty where they do."""
    project_id = one.run.project_id if one.run is not None else one.project_id
    if (project_id or one.cluster_id) and not may_get(one.rule, project_id, one.cluster_id):
        return "Its reader may not see any more what it is about."
    is_muted = Following.objects.filter(user=one.rule.owner_id, run=one.run_id, is_muted=True).exists()
    return "Its reader has muted the run." if is_muted else ""


def _send(some: list[Notice], now: datetime) -> dict[str, Any]:
    """Send them as one message, and return what became of it."""
    head = some[0]
    try:
        send(some, now)
    except (NotTaken, KeyProblem) as error:
        log.warning("notice.not_taken", rule=head.rule_id, notice=head.pk, error=str(error))
        if head.rule.where == Where.BROWSER and getattr(error, "code", 0) in GONE:
            # Unless the browser has subscribed anew meanwhile: then it is sent there.
            NoticeRule.objects.filter(pk=head.rule_id, locked=head.rule.locked).delete()
        elif getattr(error, "is_final", False) or head.tries >= MAX_TRIES:
            return {"state": "failed", "problem": str(error)}
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(head.tries, 20))
        return {"problem": str(error), "next_at": now + timedelta(seconds=wait_s)}
    return {"state": "sent", "problem": ""}


def notice_clock() -> Clock:
    """Return what makes notices, and has them sent by threads: one for each rule at a time."""
    pool, busy = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="notices"), dict[str, Any]()  # whose, by rule
    states_at = time.monotonic() + SETTLING_S

    def send_one(rule_id: str) -> None:
        try:
            close_old_connections()
            send_of(rule_id, timezone.now())
        except Exception:  # a bug, or a database that is away: the notice waits in its row
            log.exception("notice.failed", rule=rule_id)
        finally:
            del busy[rule_id]
            connections.close_all()

    def step(now: datetime) -> None:
        nonlocal states_at
        while make_of_events(now):
            pass
        if time.monotonic() >= states_at:
            states_at = time.monotonic() + STATES_EVERY_S
            make_of_states(now)
        ready = NoticeRule.objects.filter(pk__in=due(now) - busy.keys())
        for rule_id, *whose in ready.values_list("pk", "owner_id", "project_id"):
            if list(busy.values()).count(whose) < OF_ONE:
                busy[rule_id] = whose
                pool.submit(send_one, rule_id)

    return Clock("notices", step, every_s=EVERY_S, lock_s=LOCK_S)

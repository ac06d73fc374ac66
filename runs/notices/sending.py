"""Notices are sent here: from control, beside its ticks, so that a slow receiver keeps nothing waiting.

Of each rule the oldest goes first, and the next follows only once it was taken or refused: order is kept, however long
the receiver is away. Whoever sends takes the notice for LEASE first. If control is killed between sending and marking,
the notice is sent once more after that, with the same id.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import close_old_connections, connections
from django.db.models import Min
from django.utils import timezone

from runs.models import Following, Notice
from runs.notices.destinations import NotTaken, send
from runs.notices.making import make_of_events, make_of_states, may_get
from runs.rights.secrets.key_stores import KeyProblem
from runs.serving.clock import Clock

log = structlog.get_logger(__name__)

EVERY_S, STATES_EVERY_S = 0.5, 10.0
SETTLING_S = 30.0  # after the start, until nodes have reported to this control
LOCK_S = 60.0
LEASE = timedelta(seconds=60)  # longer than it takes to send one
FIRST_WAIT_S, LONGEST_WAIT_S, MAX_TRIES = 2.0, 300.0, 300  # a day
AT_A_TIME = 8  # receivers


def due(now: datetime) -> list[str]:
    """Return the rules whose oldest notice that waits may be sent now."""
    heads = Notice.objects.filter(state="waiting").order_by().values("rule").annotate(head=Min("pk"))
    return list(Notice.objects.filter(pk__in=heads.values("head"), next_at__lte=now).values_list("rule_id", flat=True))


def send_of(rule_id: str, now: datetime) -> None:
    """Send what waits for the destination of this rule, in order, until one does not get there."""
    waiting = Notice.objects.filter(rule=rule_id, state="waiting").order_by("pk")
    about = waiting.select_related("rule__owner", "rule__project", "run")
    while (head := about.first()) is not None and head.next_at <= now:
        if not waiting.filter(pk=head.pk, next_at=head.next_at).update(next_at=now + LEASE):
            return  # another process has it
        changes = _send(head, now)
        waiting.filter(pk=head.pk).update(tries=head.tries + 1, **changes)
        if "next_at" in changes:
            return


def _send(head: Notice, now: datetime) -> dict[str, Any]:
    """Send it if its reader may still read what it is about, and return what became of it."""
    project_id = head.run.project_id if head.run is not None else head.project_id
    if (project_id or head.cluster_id) and not may_get(head.rule, project_id, head.cluster_id):
        return {"state": "failed", "problem": "Its reader may not see any more what it is about."}
    if Following.objects.filter(user=head.rule.owner_id, run=head.run_id, is_muted=True).exists():
        return {"state": "failed", "problem": "Its reader has muted the run."}
    try:
        send(head, now)
    except (NotTaken, KeyProblem) as error:
        log.warning("notice.not_taken", rule=head.rule_id, notice=head.pk, error=str(error))
        if getattr(error, "is_final", False) or head.tries >= MAX_TRIES:
            return {"state": "failed", "problem": str(error)}
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(head.tries, 20))
        return {"problem": str(error), "next_at": now + timedelta(seconds=wait_s)}
    return {"state": "sent", "problem": ""}


def notice_clock() -> Clock:
    """Return what makes notices, and has them sent by threads: one for each rule at a time."""
    pool, busy = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="notices"), set[str]()
    states_at = time.monotonic() + SETTLING_S

    def send_one(rule_id: str) -> None:
        try:
            close_old_connections()
            send_of(rule_id, timezone.now())
        except Exception:  # a bug, or a database that is away: the notice waits in its row
            log.exception("notice.failed", rule=rule_id)
        finally:
            busy.discard(rule_id)
            connections.close_all()

    def step(now: datetime) -> None:
        nonlocal states_at
        while make_of_events(now):
            pass
        if time.monotonic() >= states_at:
            states_at = time.monotonic() + STATES_EVERY_S
            make_of_states(now)
        for rule_id in set(due(now)) - busy:
            busy.add(rule_id)
            pool.submit(send_one, rule_id)

    return Clock("notices", step, every_s=EVERY_S, lock_s=LOCK_S)

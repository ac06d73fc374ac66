"""``/events``: what happens to all runs that one sees, as it happens, as Server-Sent Events (HTML Standard, 9.2)."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection
from django.db.models import Max
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Field, Query, Schema

from runs.api.auth import Resource, actor
from runs.api.streaming import LastingRight, RightLost, stopping
from runs.api.training.history import EventOut
from runs.models import Event, User
from runs.rights.access import Permission, visible_runs
from runs.rights.access.operations import lists, operation
from runs.serving.rates import TooManyRequests

router = Resource(tags=["runs"])

EVERY_S = 0.5
MAX_OPEN = 20  # of one person in this process: each asks the database all the time
PING_EVERY_S = 15.0  # proxies hang up on a connection on which nothing comes for a minute
AT_ONCE = 200
LONGEST_WRITE_S = 10.0  # a transaction of another database of the same PostgreSQL may last for hours
NEWEST = """SELECT pg_snapshot_xmin(seen)::text::bigint, pg_snapshot_xmax(seen)::text::bigint,
(SELECT coalesce(max(id), 0) FROM runs_event) FROM pg_current_snapshot() AS seen"""


_open = Counter[int]()  # by the key of the person


class EventsQuery(Schema):
    since: int | None = Field(
        default=None, ge=0, lt=2**63, description="the `id` of the last event that you have; absent: from now on"
    )


class RunEventOut(EventOut):
    run: str = Field(validation_alias="run_id")


def _newest() -> int:
    found: int | None = Event.objects.aggregate(newest=Max("pk"))["newest"]
    return found or 0


class Settled:
    """Up to which id no event can come any more.

    PostgreSQL gives ids before it commits: a transaction that is still under way may hold a lower id than the newest
    that is seen. An id counts once all transactions that ran when it was the newest have ended. SQLite has one writer.
    """

    def __init__(self) -> None:
        self._newest: deque[tuple[int, float, int]] = deque()  # the first transaction after it, when, the newest id
        self._settled = 0

    def read(self) -> int:
        if connection.vendor != "postgresql":
            return _newest()
        with connection.cursor() as cursor:
            cursor.execute(NEWEST)
            oldest_running, next_transaction, newest = cursor.fetchone()
        now = time.monotonic()
        self._newest.append((next_transaction, now, newest))
        while self._newest and (self._newest[0][0] <= oldest_running or self._newest[0][1] < now - LONGEST_WRITE_S):
            self._settled = max(self._settled, self._newest.popleft()[2])
        return self._settled


class Follower:
    """What one caller has, and what comes next of what they see now."""

    def __init__(self, request: HttpRequest, since: int | None) -> None:
        self._user, self._settled = actor(request), Settled()
        self._since = _newest() if since is None else since
        self._right = LastingRight(request, self._keep)

    def _keep(self, user: User) -> None:
        visible_runs(user)  # raises where the token has lost the scope
        self._user = user

    def read(self) -> str:
        """Return the next events as they are sent, and whether there may be more at once. Raises RightLost."""
        close_old_connections()
        try:
            self._right.check()
            settled = self._settled.read()
            new = Event.objects.filter(pk__gt=self._since, pk__lte=settled, run__in=visible_runs(self._user))
            found = list(new.select_related("attempt", "actor").order_by("pk")[:AT_ONCE])
            self._since = found[-1].pk if len(found) == AT_ONCE else max(self._since, settled)
            return "".join(
                f"id: {one.pk}\ndata: {RunEventOut.model_validate(one).model_dump_json()}\n\n" for one in found
            )
        finally:
            close_old_connections()

    async def parts(self) -> AsyncIterator[str]:
        _open[self._user.pk] += 1
        try:
            yield f"retry: {int(EVERY_S * 4000)}\nid: {self._since}\n\n"  # whoever loses the connection misses nothing
            sent_at = time.monotonic()
            while not stopping.is_set():
                text = await sync_to_async(self.read, thread_sensitive=False)()
                if text or time.monotonic() - sent_at > PING_EVERY_S:
                    yield text or ": \n\n"
                    sent_at = time.monotonic()
                await asyncio.sleep(EVERY_S)
        except RightLost:
            return
        finally:
            _open[self._user.pk] -= 1


@router.get("/events", response=None, summary="What happens to all runs, as it happens")
@operation(lists(Permission.RUNS_READ))
def events(request: HttpRequest, query: Query[EventsQuery]) -> StreamingHttpResponse:
    """Server-Sent Events without an end: `id` is a cursor, `data` an event of `/runs/{run_id}/events` with its `run`.
    Whoever comes back with `since`, or with the header `Last-Event-ID` as browsers do, gets what happened meanwhile,
    each once. At most 20 at a time. Example: `?since=0`"""
    if _open[actor(request).pk] >= MAX_OPEN:
        raise TooManyRequests(int(PING_EVERY_S), f"Your account, which follows events {MAX_OPEN} times,")
    last = request.headers.get("Last-Event-ID", "")
    follower = Follower(request, int(last) if last.isdecimal() and len(last) < 19 else query.since)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx sends each at once
    return StreamingHttpResponse(follower.parts(), content_type="text/event-stream", headers=headers)

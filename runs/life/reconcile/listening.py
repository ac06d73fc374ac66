"""Reports of nodes: their documents from Valkey, and for how long each has been silent by the server's own clock.

A node's clock may be wrong, so a document counts as news when its ``at`` differs from that of the last one, and the
time of that is ours. It is kept in Valkey beside the documents, for all control processes.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, cast

import structlog
from django.db import transaction
from django.db.models import Q

from runs.models import Attempt, Node, Placement
from runs.records.metrics.progress import facts_of
from runs.serving import node_troubles
from runs.serving.transport import redis
from runs.values.status import Phase
from trainyard.contract import limits, seals
from trainyard.contract.base import JsonObject
from trainyard.contract.facts import TRACE, TraceFacts
from trainyard.contract.node_status import NodeStatus, lenient_status
from trainyard.contract.reports import AttemptReport
from trainyard.contract.seals import report_scope, unseal

log = structlog.get_logger(__name__)

RECEIVED_KEY = f"{seals.PREFIX}:control:heard"
MAX_RECORDS = 1000  # about what is over; then they are looked through
ORDER = tuple(Phase)  # phases only move on

Read = TypeVar("Read", NodeStatus, AttemptReport)


class _Source(NamedTuple):
    node: Node
    scope: str


class Listener:
    """One round of reading. ``since`` is when control began to listen: silence before it proves nothing."""

    def __init__(self, now: datetime, since: float) -> None:
        self.now, self.since = now, since
        self.statuses: dict[str, NodeStatus] = {}  # by node id
        self._silent_s: dict[str, float] = {}
        self._unheard_s: dict[str, float] = {}

    def read_statuses(self, nodes: Iterable[Node]) -> None:
        """Read the nodes' own documents into ``statuses``."""
        sources = {seals.up_key(node.pk): _Source(node, seals.up_key(node.pk)) for node in nodes}
        for key, status in self._read(sources, _status).items():
            if status.node == sources[key].node.pk:
                self.statuses[status.node] = status

    def read_reports(self, placements: Iterable[Placement]) -> dict[int, AttemptReport]:
        """Return the reports by placement id. One with another fence, node or attempt does not open."""
        by_key = {seals.report_key(one.node_id, one.attempt_id): one for one in placements}
        sources = {
            key: _Source(one.node, report_scope(one.node_id, one.attempt.run_id, one.attempt.fence))
            for key, one in by_key.items()
        }
        found = self._read(sources, lambda source, text: unseal(source.node.key, source.scope, text, AttemptReport))
        return {by_key[key].pk: one for key, one in found.items() if one.attempt == by_key[key].attempt_id}

    def node_silent_s(self, node: Node) -> float:
        """Seconds since the node worker last sent its status."""
        return self._silence(seals.up_key(node.pk), node.seen_at)

    def attempt_silent_s(self, placement: Placement) -> float:
        """Seconds since the last report on this part of the attempt."""
        key = seals.report_key(placement.node_id, placement.attempt_id)
        return self._silence(key, placement.reported_at or placement.attempt.created_at)

    def attempt_unheard_s(self, placement: Placement) -> float:
        """The same, with the time in which control was away."""
        key = seals.report_key(placement.node_id, placement.attempt_id)
        return self._unheard_s.get(key, self.attempt_silent_s(placement))

    def is_answering(self, node: Node) -> bool:
        return node.pk in self.statuses and self.node_silent_s(node) <= limits.CONTACT_LOST_S

    def is_stopped(self, placement: Placement) -> bool:
        """Return whether the node worker sees that a signal has stopped the supervisor."""
        status = self.statuses.get(placement.node_id)
        if status is None or not self.is_answering(placement.node):
            return False
        return placement.attempt_id in status.attempts and status.attempts[placement.attempt_id].is_stopped

    def lists(self, placement: Placement) -> bool:
        """Return whether the node worker still has a folder of the attempt."""
        status = self.statuses.get(placement.node_id)
        return status is not None and placement.attempt_id in status.attempts

    def _silence(self, key: str, at: datetime | None) -> float:
        if key in self._silent_s:
            return self._silent_s[key]
        return self.now.timestamp() - max(at.timestamp() if at else 0.0, self.since)

    def _read(self, sources: Mapping[str, _Source], opened: Callable[[_Source, bytes], Read]) -> dict[str, Read]:
        if not sources:
            return {}
        names = list(sources)
        texts = cast("list[bytes | None]", redis().mget(names))
        received = cast("list[bytes | None]", redis().hmget(RECEIVED_KEY, names))
        news: dict[str, str] = {}
        documents: dict[str, Read] = {}
        for key, text, last in zip(names, texts, received, strict=True):
            if text is None:
                continue
            try:
                document = opened(sources[key], text)
            except Exception as error:  # BadMessage, or whatever else one node's document raises: the others are read
                node_troubles.note(sources[key].node.pk, node_troubles.DOCUMENTS)
                log.warning("listening.refused", node=sources[key].node.name, key=key, error=str(error))
                continue
            documents[key] = document
            self._record_news(key, str(document.at), last.decode() if last else "", news)
        if news:
            redis().hset(RECEIVED_KEY, mapping=cast("dict[Any, Any]", news))
        return documents

    def _record_news(self, key: str, at: str, last: str, news: dict[str, str]) -> None:
        last_at, _, received_at = last.partition("|")
        if at == last_at and received_at:
            self._unheard_s[key] = self.now.timestamp() - float(received_at)
            self._silent_s[key] = min(self._unheard_s[key], self.now.timestamp() - self.since)
        else:
            news[key] = f"{at}|{self.now.timestamp()}"
            self._silent_s[key] = self._unheard_s[key] = 0.0


def _status(source: _Source, text: bytes) -> NodeStatus:
    status, left_out = lenient_status(unseal(source.node.key, source.scope, text, JsonObject))
    for section, error in left_out.items():
        log.warning("listening.left_out", node=source.node.name, section=section, error=error)
    return status


def later(one: Phase, other: Phase) -> Phase:
    """Phases only move on: a report that was delayed, or replayed, does not take one back."""
    return max(one, other, key=ORDER.index)


def forget(placements: Iterable[Placement]) -> None:
    """Drop the records about placements that are over."""
    if names := [seals.report_key(one.node_id, one.attempt_id) for one in placements]:
        redis().hdel(RECEIVED_KEY, *names)


def forget_the_rest(nodes: Iterable[Node]) -> None:
    """Drop the records about everything but these nodes and what lives on them, once there are many."""
    nodes = list(nodes)
    if redis().hlen(RECEIVED_KEY) <= len(nodes) + MAX_RECORDS:
        return
    living = Placement.objects.filter(Q(attempt__ended_at=None) | ~Q(held_slots=None))
    kept = {seals.up_key(node.pk) for node in nodes}
    kept |= {seals.report_key(*pair) for pair in living.values_list("node_id", "attempt_id")}
    known = [key.decode() for key in cast("list[bytes]", redis().hkeys(RECEIVED_KEY))]
    if over := [key for key in known if key not in kept]:
        redis().hdel(RECEIVED_KEY, *over)


MAX_NAMED = 3
NO_ANSWER = TraceFacts()


class TraceDocument(TypedDict):
    """A trace as its attempt keeps it."""

    id: str
    first: int
    steps: int
    ranks: Literal["all"] | list[int]
    asked_at: float
    is_told: bool  # its event is written


def record_traces(attempts: Iterable[Attempt]) -> None:
    """Write an event for each trace of these attempts that all of its ranks have spoken of, or that ended with them."""
    for attempt in attempts:
        trace = attempt.trace
        if trace is None or trace["is_told"]:
            continue
        said = facts_of(attempt.run_id, TRACE, TraceFacts, attempt=attempt.fence)
        found = {rank: one for rank, one in said.items() if one.id == trace["id"]}
        ranks = range(attempt.world_size) if trace["ranks"] == "all" else trace["ranks"]
        if attempt.ended_at is not None or all(rank in found for rank in ranks):
            _record(attempt, trace, {rank: found.get(rank, NO_ANSWER) for rank in ranks})


def _record(attempt: Attempt, trace: TraceDocument, found: dict[int, TraceFacts]) -> None:
    recorded: TraceDocument = {**trace, "is_told": True}
    files = [one.file for one in found.values() if one.file]
    with transaction.atomic():
        current = Attempt.objects.select_for_update().values_list("trace", flat=True).get(pk=attempt.pk)
        if current is None or current["id"] != trace["id"] or current["is_told"]:
            return  # another process was faster
        Attempt.objects.filter(pk=attempt.pk).update(trace=recorded)
        code = "traced" if files else "trace-failed"
        attempt.run.record(code, sentence_of(trace, found), data={"files": files}, attempt=attempt)
    attempt.trace = recorded


def sentence_of(trace: TraceDocument, found: dict[int, TraceFacts]) -> str:
    """Say which steps were traced on how many ranks, and why not on the others."""
    first, last = trace["first"], trace["first"] + trace["steps"] - 1
    steps = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    missing = {rank: one.why or "its node did not answer" for rank, one in found.items() if not one.file}
    done = len(found) - len(missing)
    why = "; ".join(f"rank {rank}: {words.rstrip('.')}" for rank, words in list(missing.items())[:MAX_NAMED])
    if not done:
        return f"{steps[0].upper()}{steps[1:]} could not be traced: {why}."
    ranks = f"{done} rank{'' if done == 1 else 's'}" + (f" of {len(found)}" if missing else "")
    return f"Traced {steps} on {ranks}" + (f"; {why}." if missing else ".")

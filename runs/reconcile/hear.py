"""What nodes say: their documents from Valkey, unsealed, and how long each has been silent by the server's own clock.

A node's clock may be wrong, so a document counts as news when its ``at`` differs from the last one heard, and the
time of that is ours. It is kept in Valkey beside the documents, for all control processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, cast

import structlog
from django.db.models import Q

from runs.documents import BadDocument, Health, Inventory, Report, Up, checked
from runs.models import Node, Placement
from runs.serving.transport import redis
from runs.status import Phase
from trainyard.contract import keys, limits, seals
from workers import contract

log = structlog.get_logger(__name__)

HEARD_KEY = f"{keys.PREFIX}:control:heard"
MAX_NOTES = 1000  # about what is over; then they are looked through
ORDER = (Phase.PREPARING, Phase.READY, Phase.RUNNING, Phase.STOPPING, Phase.ENDED, Phase.REFUSED)


class Ear:
    """One round of listening. ``since`` is when control began to listen: silence before it proves nothing."""

    def __init__(self, now: datetime, since: float) -> None:
        self.now = now
        self.since = since
        self.ups: dict[str, contract.Document] = {}
        self._silent_s: dict[str, float] = {}

    def listen_to_nodes(self, nodes: Iterable[Node]) -> None:
        """Read the up documents into ``ups`` by node id."""
        nodes = list(nodes)
        scopes = {keys.up_key(node.pk): (node, keys.up_key(node.pk)) for node in nodes}
        for key, document in self._listen(scopes, checked_up).items():
            if document.get("node") == scopes[key][0].pk:
                self.ups[scopes[key][0].pk] = document

    def listen_to_attempts(self, placements: Iterable[Placement]) -> dict[int, contract.Document]:
        """Return the reports by placement id. One with another fence, node or attempt does not open."""
        by_key = {keys.report_key(one.node_id, one.attempt_id): one for one in placements}
        scopes = {
            key: (one.node, seals.report_scope(one.node_id, one.attempt.run_id, one.attempt.fence))
            for key, one in by_key.items()
        }
        return {
            by_key[key].pk: report
            for key, report in self._listen(scopes, partial(checked, Report)).items()
            if report.get("attempt") == by_key[key].attempt_id and report.get("phase") in list(Phase)
        }

    def node_silent_s(self, node: Node) -> float:
        """Seconds since the node worker was last heard."""
        return self._silence(keys.up_key(node.pk), node.seen_at)

    def attempt_silent_s(self, placement: Placement) -> float:
        """Seconds since anything new was heard of this part of the attempt."""
        key = keys.report_key(placement.node_id, placement.attempt_id)
        return self._silence(key, placement.reported_at or placement.attempt.created_at)

    def is_answering(self, node: Node) -> bool:
        return node.pk in self.ups and self.node_silent_s(node) <= limits.CONTACT_LOST_S

    def lists(self, placement: Placement) -> bool:
        """Whether the node worker still has a folder of the attempt."""
        return placement.attempt_id in self.ups.get(placement.node_id, {}).get("attempts", {})

    def _silence(self, key: str, at: datetime | None) -> float:
        if key in self._silent_s:
            return self._silent_s[key]
        return self.now.timestamp() - max(at.timestamp() if at else 0.0, self.since)

    def _listen(
        self, scopes: dict[str, tuple[Node, str]], check: Callable[[contract.Document], contract.Document]
    ) -> dict[str, contract.Document]:
        if not scopes:
            return {}
        keys = list(scopes)
        texts = cast("list[bytes | None]", redis().mget(keys))
        heard = cast("list[bytes | None]", redis().hmget(HEARD_KEY, keys))
        news: dict[str, str] = {}
        documents = {}
        for key, text, last in zip(keys, texts, heard, strict=True):
            if text is None:
                continue
            node, scope = scopes[key]
            try:
                document = check(contract.unseal(node.key, scope, text))
            except ValueError as error:
                log.warning("hear.refused", node=node.name, key=key, error=str(error))
                continue
            documents[key] = document
            self._note(key, str(document.get("at")), last.decode() if last else "", news)
        if news:
            redis().hset(HEARD_KEY, mapping=cast("dict[Any, Any]", news))
        return documents

    def _note(self, key: str, at: str, last: str, news: dict[str, str]) -> None:
        last_at, _, heard_at = last.partition("|")
        if at == last_at and heard_at:
            self._silent_s[key] = self.now.timestamp() - max(float(heard_at), self.since)
        else:
            news[key] = f"{at}|{self.now.timestamp()}"
            self._silent_s[key] = 0.0


def checked_up(document: contract.Document) -> contract.Document:
    """Return the up document; an inventory or health that makes no sense is left out. Raises BadDocument."""
    kept = dict(document)
    for name, shape in (("inventory", Inventory), ("health", Health)):
        try:
            checked(shape, kept.get(name) or {})
        except BadDocument as error:
            log.warning("hear.left_out", node=document.get("name"), section=name, error=str(error))
            del kept[name]
    return checked(Up, kept)


def later(one: Phase, other: Phase) -> Phase:
    """Phases only move on: a report that was delayed, or replayed, does not take one back."""
    return max(one, other, key=ORDER.index)


def forget(placements: Iterable[Placement]) -> None:
    """Drop the notes about placements that are over."""
    if keys := [keys.report_key(one.node_id, one.attempt_id) for one in placements]:
        redis().hdel(HEARD_KEY, *keys)


def forget_the_rest(nodes: Iterable[Node]) -> None:
    """Drop the notes about everything but these nodes and what lives on them, once there are many."""
    nodes = list(nodes)
    if redis().hlen(HEARD_KEY) <= len(nodes) + MAX_NOTES:
        return
    living = Placement.objects.filter(Q(attempt__ended_at=None) | ~Q(held_slots=None))
    kept = {keys.up_key(node.pk) for node in nodes}
    kept |= {keys.report_key(*pair) for pair in living.values_list("node_id", "attempt_id")}
    known = [key.decode() for key in cast("list[bytes]", redis().hkeys(HEARD_KEY))]
    if over := [key for key in known if key not in kept]:
        redis().hdel(HEARD_KEY, *over)

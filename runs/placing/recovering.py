"""Runs that are to be started again, after a failure or on other nodes: what they ask for, and what keeps them. They
come before the queue."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import QuerySet

from runs.models import Cluster, Node, Run
from runs.placing.fitting import Placed, Request, Waiting
from runs.placing.queue import requests_of
from runs.recovery.fencing import lost_nodes, unconfirmed_nodes
from runs.recovery.policy import waiting_sentence
from runs.values.columns import LeftOutNode
from runs.values.status import Status, WaitCode, Wanted
from trainyard.contract.causes import CauseClass
from trainyard.formats.words import listed

LOOKED_S = 15.0  # after a failure every node has looked at its disk again, and control has read of it
ROOM_BYTES, ROOM_SHARE = 1 << 30, 0.05  # of a disk that is not full any more: the smaller of the two


def recovering_runs(cluster: Cluster) -> QuerySet[Run]:
    """The cluster's runs that are to be started again, now or after a pause."""
    found = Run.objects.filter(cluster=cluster, status__in=(Status.RECOVERING, Status.RESIZING), wanted=Wanted.RUN)
    return found.exclude(recover_at=None).defer("spec", "estimate").order_by("created_at", "pk")


class Recovering:
    """Runs that recover, as one round sees them."""

    def __init__(self, runs: QuerySet[Run], now: datetime) -> None:
        self._runs = {run.pk: run for run in runs}
        self._now = now
        self.requests = [self._without_left_out(one) for one in requests_of(runs)] if self._runs else []

    def _without_left_out(self, request: Request) -> Request:
        if request.run not in self._runs:  # it has just become one
            return request
        run = self._runs[request.run]
        left_out = run.restarts.left_out_at(self._now.timestamp())
        roomy = self._with_room_again(run, left_out)
        lost = lost_nodes(run, self._now) if request.node_counts else frozenset()
        return replace(
            request,
            excluded=lost | frozenset(one.node for one in left_out if one.is_excluded) - roomy,
            avoided=roomy | frozenset(one.node for one in left_out if not one.is_excluded),
        )

    def _with_room_again(self, run: Run, left_out: Sequence[LeftOutNode]) -> frozenset[str]:
        """Return those of the nodes whose disk was full and is not any more: they come behind the others."""
        full = [one.node for one in left_out if one.is_excluded and one.cause == CauseClass.DISK_FULL]
        if not full or self._now.timestamp() - run.restarts.failed_at < LOOKED_S:
            return frozenset()
        return frozenset(node.pk for node in Node.objects.filter(pk__in=full) if _has_disk_room(node))

    def checked(self, answers: Sequence[Placed | Waiting]) -> list[Placed | Waiting]:
        """Return the answers, with those that wait for more than room in place of the placements they would have: the
        room is kept for them. An empty sentence leaves the run's own."""
        return [self._checked(answer) for answer in answers]

    def _checked(self, answer: Placed | Waiting) -> Placed | Waiting:
        run = self._runs.get(answer.run)
        if run is None:
            return answer
        if run.recover_at is not None and run.recover_at > self._now:
            return Waiting(run.pk, WaitCode.TIME, "", has_claim=True)
        if names := unconfirmed_nodes(run, self._now):
            sentence = f"Waiting for {listed(names)} to confirm that nothing of the last attempt is left."
            return Waiting(run.pk, WaitCode.CLEANUP, _waiting_sentence(run, sentence), has_claim=True)
        if isinstance(answer, Placed):
            return answer
        return replace(answer, sentence=_waiting_sentence(run, answer.sentence))


def _has_disk_room(node: Node) -> bool:
    own = node.own_checks
    folders = [] if own is None else [one for one in (own.home, own.checkpoints) if one is not None]
    known = [(one.free_bytes, one.total_bytes) for one in folders if one.free_bytes is not None and one.total_bytes]
    return bool(known) and all(free >= min(ROOM_BYTES, ROOM_SHARE * total) for free, total in known)


def _waiting_sentence(run: Run, why: str) -> str:
    return waiting_sentence(run.restarts, why) if run.status == Status.RECOVERING else why

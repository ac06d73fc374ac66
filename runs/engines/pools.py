"""Machines of an engine that stay between runs: asked for one by one as runs wait, given back when they are idle.

A machine is a job of the system under an id of its own, in place of an attempt's, and a node under a name made of it.
``Cluster.pool`` says what was asked for, and the system is the truth: what it has and nobody knows of is cancelled by
the round (``allocations``), and what it has no more has left.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.crypto import salted_hmac

from runs.engines.allocating import AllocatingEngine, keep_offers, offered_rooms
from runs.engines.machine_system import JobState, MachineRequest, MachineSystem, SystemJob
from runs.engines.refusals import SystemAway, SystemRefused
from runs.models import Cluster, HeldSlot, JoinToken, Node
from runs.models.access import digest_of
from runs.placing.admission import refused, terms_of
from runs.placing.fitting import Request
from runs.placing.planning import rooms_of
from runs.placing.pools import decide, pause_s
from runs.placing.queue import arranged, requests_of, waiting_runs
from runs.placing.recovering import Recovering, recovering_runs
from runs.serving import broadcast
from runs.serving.certificates import pin
from runs.values.ids import new_id

JOIN_LIMIT_S, UNLISTED_S = 300.0, 10.0  # as for machines of attempts
LIFE = timedelta(minutes=15)  # of a token after the system was last seen with the job


def join_secret(kind: str, about: str) -> str:
    """Return the join token that lets one machine in. It is made from the server's secret, so that control can make the
    same again after it was killed between two steps. Only its digest is stored."""
    return f"join_{salted_hmac(kind, about, algorithm='sha256').hexdigest()}"


class Pool:
    """One round. ``machines``, by id: when each was asked ``at``, since when its job ``runs`` and its node is ``idle``
    (Unix seconds), whether it has ``joined`` and is ``given`` back."""

    def __init__(self, cluster: Cluster, engine: AllocatingEngine, now: datetime) -> None:
        cluster.refresh_from_db(fields=["pool", "settings"])
        self._cluster, self._engine, self._now, self._at = cluster, engine, now, now.timestamp()
        self._rules = engine.settings_type.of(cluster.settings).pool
        self._state = {"failed": 0, "failed_at": 0.0, "why": "", **cluster.pool}
        self.machines = {one: {**known} for one, known in cluster.pool.get("machines", {}).items()}
        self.is_open = bool(self._rules.most or self.machines)

    def follow(self, asked: Callable[[], MachineSystem], jobs: Mapping[str, Sequence[SystemJob]]) -> None:
        """Compare with what the system has, ask for what is missing, and give back what is idle."""
        try:
            for machine in list(self.machines):
                self._follow(machine, asked, jobs.get(machine, ()))
            self._decide(asked)
        except SystemAway as error:
            self._fail(str(error))
        state = {**self._state, "machines": self.machines}
        if state != self._cluster.pool:
            Cluster.objects.filter(pk=self._cluster.pk).update(pool=state)
            broadcast.nodes_changed()

    def _fail(self, why: str) -> None:
        self._state |= {"failed": self._state["failed"] + 1, "failed_at": self._at, "why": why}

    def _name(self, machine: str) -> str:
        return f"{self._cluster.name[:40]}-{machine}"

    def _follow(self, machine: str, asked: Callable[[], MachineSystem], jobs: Sequence[SystemJob]) -> None:
        known, label = self.machines[machine], self._engine.label
        node = Node.objects.present().filter(cluster=self._cluster, name=self._name(machine)).first()
        job = next((one for one in jobs if one.state != JobState.OVER), jobs[-1] if jobs else None)
        if job is None or job.state == JobState.OVER:
            if job is None and self._at - known["at"] < UNLISTED_S:
                return
            if node is not None and HeldSlot.objects.filter(node=node).exists():  # its run finds out that it is lost
                return
            self._forget(machine)
            Node.objects.filter(pk=node and node.pk).update(kind=Node.Kind.LEFT)
            if not known.get("joined"):
                self._fail((job and job.end_sentence) or f"{label} has no job for it any more.")
            return
        if node is not None:
            known["joined"], self._state["failed"] = True, 0
        if job.state == JobState.RUNNING:
            known.setdefault("runs", self._at)
        if known.get("given") or (known.get("joined") and node is None):
            asked().cancel(job.id)
        elif node is None and self._at - known.get("runs", self._at) > JOIN_LIMIT_S:
            self._fail(f"{label} job {job.id} ran for {JOIN_LIMIT_S / 60:.0f} min and did not join")
            self._forget(machine)  # and the round cancels its job
        elif node is None:
            JoinToken.objects.filter(digest=digest_of(self._secret(machine))).update(expires_at=self._now + LIFE)

    def _decide(self, asked: Callable[[], MachineSystem]) -> None:
        keep_offers(self._cluster, self._engine.offers(self._cluster))
        names = {self._name(machine): known for machine, known in self.machines.items()}
        nodes = list(Node.objects.present().filter(cluster=self._cluster, name__in=names, is_draining=False))
        busy, idle = set(HeldSlot.objects.filter(node__in=nodes).values_list("node", flat=True)), {}
        for node in nodes:
            if node.pk in busy:
                names[node.name].pop("idle", None)
            else:
                idle[node.pk] = self._at - names[node.name].setdefault("idle", self._at)
        found = decide(
            self._rules, self._requests(), rooms_of(nodes, self._now), offered_rooms(self._cluster), idle,
            num_joining=sum(not one.get("joined") for one in names.values()),
            paused_s=pause_s(self._state["failed"], self._at - self._state["failed_at"]), problem=self._state["why"],
        )  # fmt: skip
        self._state["sentence"] = found.sentence
        for node in (one for one in nodes if one.pk in found.given_back):
            with transaction.atomic():
                Cluster.objects.select_for_update().get(pk=self._cluster.pk)  # nothing is placed on it meanwhile
                if not HeldSlot.objects.filter(node=node).exists():
                    names[node.name]["given"] = Node.objects.filter(pk=node.pk).update(is_draining=True) > 0
        for _ in range(min(found.num_asked, self._rules.most - len(self.machines))):
            self._ask(asked)

    def _requests(self) -> list[Request]:
        queue = requests_of(waiting_runs(self._cluster))
        shut_out = refused(queue, terms_of(self._cluster, self._now)) if queue else {}
        admitted = arranged(self._cluster, [one for one in queue if one.run not in shut_out], self._now)
        return [*Recovering(recovering_runs(self._cluster), self._now).requests, *admitted]

    def _ask(self, asked: Callable[[], MachineSystem]) -> None:
        """Raises SystemAway. What the system took all the same is cancelled, for nobody knows of it."""
        machine = new_id()
        secret, slots = self._secret(machine), self._engine.offers(self._cluster)[0].slots
        made = {"cluster": self._cluster, "for_pool": True, "expires_at": self._now + LIFE}
        JoinToken.objects.create(digest=digest_of(secret), **made)
        tokens, name = [pin(secret)], f"{self._cluster.name} pool"
        try:
            asked().submit(MachineRequest(machine, name, 1, slots, tokens, node=self._name(machine)))
        except (SystemRefused, SystemAway) as error:
            self._forget(machine)
            raise SystemAway(str(error)) from error
        self.machines[machine] = {"at": self._at}
        self._state["asked_at"] = self._at

    def _forget(self, machine: str) -> None:
        self.machines.pop(machine, None)
        JoinToken.objects.filter(digest=digest_of(self._secret(machine))).delete()

    def _secret(self, machine: str) -> str:
        return join_secret("runs.engines.pools", f"{self._cluster.pk}/{machine}")

"""The base of engines that bring nodes: each attempt gets machines of its own, which leave with it.

The engine's system is asked in threads of control (``allocations``), never in a tick. What it answered stands in
the rows of ``Allocation``, and everything here reads those.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from runs.engines.celery import CeleryEngine
from runs.engines.cluster_settings.settings import Offer, Settings
from runs.engines.findings import Finding, machines, probe_of
from runs.engines.machine_system import ExaminedSystem, SystemAway, origin_of
from runs.engines.protocol import NOTHING, WantedOfPlacements
from runs.models import Allocation, Attempt, Cluster, Node, Placement
from runs.placing.planning import runs_containers
from runs.placing.scheduling import Room
from trainyard.contract.base import JsonObject
from trainyard.contract.desired import DesiredAttempt

changed = threading.Event()  # something of an allocation, in this process: its systems are asked now


def wake() -> None:
    changed.set()


class AllocatingEngine(CeleryEngine, ABC):
    """An engine that brings nodes. Once they have joined they are reached as all others: a message to their queue."""

    about = "It brings machines for each run, which leave with it."
    settings_type: type[Settings]  # of its clusters
    access: tuple[str, str]  # the step of `trainyard doctor` for what lets us in, and what to mend there

    def checked(self, document: JsonObject) -> JsonObject:
        """Return the settings of a cluster as they are kept. Raises SettingsError."""
        return self.settings_type.checked(document, self.label)

    def offers(self, cluster: Cluster) -> Sequence[Offer]:
        """Return what runs may be placed on, one for each kind of machine."""
        return self.settings_type.of(cluster.settings).offers()

    @abstractmethod
    def system(self, cluster: Cluster) -> ExaminedSystem:
        """Raises SystemAway where nothing lets us in."""

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        try:
            system = self.system(cluster)
        except SystemAway as error:
            step, advice = self.access
            yield Finding(step, False, str(error), advice)
            return
        yield from system.steps(probe_of(origin_of(cluster).server))

    def examine_billed(self, cluster: Cluster) -> Iterator[Finding]:
        """Yield the steps of ``examine`` that cost money: they are done on request alone."""
        return iter(())

    def capacity(self, cluster: Cluster, now: datetime) -> list[Room]:
        nodes = list(Node.objects.registered().filter(cluster=cluster))
        taken = dict(Placement.objects.filter(node__in=nodes).values_list("node_id", "attempt__allocation__problem"))
        return [
            Room(
                node=node.pk,
                name=node.name,
                num_slots=node.slots,
                free=() if node.pk in taken else tuple(range(node.slots)),
                accelerator=node.accelerator,
                trouble=taken.get(node.pk) or "",
                runs_containers=runs_containers(node),
            )
            for node in nodes
        ]

    def start(self, placements: Sequence[Placement], wanted: WantedOfPlacements) -> None:
        for attempt in {placement.attempt_id for placement in placements}:
            Allocation.objects.get_or_create(attempt_id=attempt)
        wake()

    def pending(self, attempt: Attempt) -> str:
        allocation = Allocation.objects.filter(attempt=attempt).first()
        if allocation is not None and allocation.state == Allocation.State.OVER:
            return ""
        nodes = [placement.node for placement in attempt.placements.select_related("node")]
        missing = [node for node in nodes if node.kind == Node.Kind.OFFERED or node.seen_at is None]
        if not missing:
            return ""
        if allocation is None:
            return f"Asking {self.label} for {machines(len(nodes))}."
        if allocation.problem:
            return f"{allocation.problem} It is asked again every few seconds."
        if allocation.state == Allocation.State.RUNNING:
            where = f" on {', '.join(allocation.hosts)}" if allocation.hosts else ""
            joined = f"{len(nodes) - len(missing)} of {len(nodes)} nodes have joined"
            return f"{self.label} job {allocation.job} runs{where}; {joined}."
        return allocation.sentence or f"Asking {self.label} for {machines(len(nodes))}."

    def nudge(self, node: Node, attempts: Mapping[str, DesiredAttempt] = NOTHING) -> None:
        if node.kind in (Node.Kind.STAYS, Node.Kind.BROUGHT):
            super().nudge(node, attempts)

    def stop(self, attempt: Attempt) -> None:
        super().stop(attempt)
        wake()

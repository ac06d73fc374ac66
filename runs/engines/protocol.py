"""Protocol of an engine. Scheduling and reconciling use it and nothing behind it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from runs.engines.findings import Finding
from runs.models import Attempt, Cluster, Node, Placement
from runs.placing.fitting import Room
from trainyard.contract.desired import DesiredAttempt
from trainyard.contract.inspections import Question

WantedOfPlacements = Mapping[int, DesiredAttempt]  # by placement
NOTHING: Mapping[str, DesiredAttempt] = MappingProxyType({})


class Engine(Protocol):
    """Brings the nodes of a cluster and has them look at what is wanted of them.

    State documents are the truth: what a node is to do stands in its ``Desired``, which control writes right before or
    after it calls a method here, and what a node does stands in its ``NodeStatus`` and in the reports. Messages of an
    engine are hints. Each may be lost or come twice, so every method is idempotent, and none raises because a machine
    or a broker is away: control calls again, or the node reads its document by itself within a second.

    An engine whose nodes stay (``celery``) has only messages to send. An engine that brings nodes asks its own system
    for machines, on each of which it starts ``trainyard node --for-attempt``; there the node joins, serves the attempt
    as any other node does, and leaves.
    """

    label: str  # its name, or that of its system, in sentences
    about: str  # one sentence, beside the choice of engines

    def capacity(self, cluster: Cluster, now: datetime) -> list[Room]:
        """Return the nodes of the cluster with their slots, those that are held and those that are free.

        An engine that brings nodes offers what its system may give, as rows of nodes that have not joined yet. Attempts
        are placed on them like on others.
        """

    def start(self, placements: Sequence[Placement], wanted: WantedOfPlacements) -> None:
        """An attempt was placed on these nodes: have them prepare it now. ``wanted`` is what their documents will say.

        An engine that brings nodes asks its system for these machines here, with a token bound to the attempt.
        """

    def pending(self, attempt: Attempt) -> str:
        """Return why nodes of an attempt are not there yet, as a sentence; empty where none is waited for.

        Asked until the attempt goes. While it answers, silence of the nodes means nothing, and the sentence stands on
        the run's page.
        """

    def nudge(self, node: Node, attempts: Mapping[str, DesiredAttempt] = NOTHING) -> None:
        """Have the node read its document now: what is wanted of it has changed. ``attempts``, by id, is what the
        document says of those that cannot wait."""

    def stop(self, attempt: Attempt) -> None:
        """Ranks of the attempt are to end, or it has ended: have its nodes read that now.

        An engine that brings nodes gives its machines back once all of them have reported their end; where they cannot
        be reached, its system ends them.
        """

    def inspect(self, node: Node, question: Question) -> None:
        """Have the node look at a dataset. Control repeats it until the node's status lists the question."""

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        """Yield step by step what keeps the cluster from training, for `trainyard doctor`. It may take a minute."""

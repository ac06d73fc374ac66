"""Placing with checks: a node that fails one is left out, and the run goes to others or waits and says why.

Nodes report their checks all the time, so nothing is waited for here, but for runs with ``preflight: always`` (see
``beforehand``). A node returns by itself: the next round reads what it reports by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from runs.models import Node, Run
from runs.models.checks import Check, CheckState
from runs.placing.scheduling import Placed, Request, Waiting
from runs.preflight.beforehand import Beforehand
from runs.preflight.machines import checks_of
from runs.preflight.needs import Needs, checks_for
from runs.preflight.nodes import CheckedNode, checked_nodes
from runs.preflight.pairs import connection_checks, unfit_in, version_checks
from trainyard.contract.base import SpecDocument
from trainyard.spec.sections.preflight import ALWAYS, NEVER, PreflightMode, mode_of

MAX_ROUNDS = 8  # of placing anew without the nodes that failed
MAX_SENTENCES = 3

Answers = list[Placed | Waiting]
LeftOut = dict[str, dict[str, str]]  # by run, then by node: why


@dataclass
class Vetted:
    """The answers, and the nodes that runs do not have because of a check."""

    answers: Answers
    left_out: LeftOut = field(default_factory=dict)
    to_check: set[str] = field(default_factory=set)  # ids of nodes for which runs wait that want a check each time

    @property
    def placed(self) -> list[Placed]:
        return [answer for answer in self.answers if isinstance(answer, Placed)]

    def sentence_for(self, run_id: str) -> str:
        """Return what is to be said of the nodes that the run goes without; empty where there are none."""
        return " ".join(list(self.left_out.get(run_id, {}).values())[:MAX_SENTENCES])


def place_vetted(requests: Sequence[Request], place: Callable[[Sequence[Request]], Answers], now: datetime) -> Vetted:
    """Return what ``place`` answers once no run is placed on nodes that fail a check that matters for it."""
    vetted = Vetted(place(requests))
    view = View(vetted.placed, now)
    for _ in range(MAX_ROUNDS):
        found = view.problems()
        if not found:
            break
        for run_id, problems in found.items():
            vetted.left_out.setdefault(run_id, {}).update(problems)
        requests = [
            replace(one, excluded=one.excluded | found[one.run].keys()) if one.run in found else one for one in requests
        ]
        vetted.answers = place(requests)
        view = View(vetted.placed, now)
    view.hold_back(vetted)
    vetted.answers = [_explained(answer, vetted) for answer in vetted.answers]
    return vetted


def _explained(answer: Placed | Waiting, vetted: Vetted) -> Placed | Waiting:
    why = vetted.sentence_for(answer.run)
    if isinstance(answer, Placed) or not why or not answer.sentence:
        return answer
    return replace(answer, sentence=f"{answer.sentence} {why}")


class View:
    """What is known of the nodes of some placements, and of what their runs need."""

    def __init__(self, placed: Sequence[Placed], now: datetime) -> None:
        self._placed = placed
        if not placed:
            return
        rows = Node.objects.filter(pk__in={part.node for one in placed for part in one.parts})
        self._nodes = {node.id: node for node in checked_nodes(rows, now)}
        plans = Run.objects.filter(pk__in=[one.run for one in placed]).values_list("pk", "spec", "estimate")
        self._plans = {pk: (spec, estimate) for pk, spec, estimate in plans}
        always = [one.run for one in placed if self._mode(one) == ALWAYS]
        self._beforehand = Beforehand(always, self._nodes, now) if always else None

    def problems(self) -> LeftOut:
        """Return the nodes that their runs may not have."""
        found: LeftOut = {}
        for one in self._placed:
            if self._mode(one) == NEVER:
                continue
            spec, estimate = self._plans.get(one.run, (SpecDocument({}), None))
            problems = problems_of(one, self._nodes, Needs.of(spec, estimate))
            if self._beforehand is not None and self._mode(one) == ALWAYS:
                problems = self._beforehand.problems_of(one) | problems
            if problems:
                found[one.run] = problems
        return found

    def hold_back(self, vetted: Vetted) -> None:
        """Have the runs wait that want their nodes checked first."""
        before = self._beforehand if self._placed else None
        if before is None:
            return
        for place, one in enumerate(vetted.answers):
            if isinstance(one, Placed) and self._mode(one) == ALWAYS and not before.is_covered(one):
                vetted.answers[place] = before.waiting(one)
                vetted.to_check |= {part.node for part in one.parts}

    def _mode(self, placed: Placed) -> PreflightMode:
        spec, _ = self._plans.get(placed.run, (SpecDocument({}), None))
        return mode_of(spec)


def problems_of(placed: Placed, nodes: dict[str, CheckedNode], needs: Needs) -> dict[str, str]:
    """Return by id which of the placement's nodes fail a check, with the sentence about it. Pure."""
    found: dict[str, str] = {}
    first = 0
    for part in placed.parts:
        node, ranks = nodes.get(part.node), range(first, first + len(part.slots))
        first = ranks.stop
        if node is None or not node.is_in_contact:
            continue  # placing knows that itself
        failed = [one for one in (*checks_of(node), *checks_for(needs, node, ranks)) if one.state == CheckState.FAIL]
        if failed:
            found[node.id] = failed[0].sentence
    here = [nodes[part.node] for part in placed.parts if part.node in nodes and part.node not in found]
    for node_id, sentences in unfit_in(here).items():
        found[node_id] = " ".join(sentences)
    return found


def checks_together(nodes: Sequence[CheckedNode]) -> list[Check]:
    """Return all checks of some nodes: of each alone, and between them."""
    alone = [check for node in nodes for check in checks_of(node)]
    return [*version_checks(nodes), *alone, *connection_checks(nodes)]


def checks_of_placement(placed: Sequence[tuple[CheckedNode, range]], needs: Needs) -> list[Check]:
    """Return all checks of the nodes that an attempt was placed on, with its ranks on each."""
    plan = [check for node, ranks in placed for check in checks_for(needs, node, ranks)]
    return [*checks_together([node for node, _ in placed]), *plan]

"""Placing with checks: a node that fails one is left out, and the run goes to others or waits and says why.

Nodes report their checks all the time, so nothing is waited for here, but for runs with ``preflight: always`` (see
``beforehand``). A node returns by itself: the next round reads what it reports by then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from runs.life.preflight.beforehand import Beforehand
from runs.life.preflight.needs import FAIL, OK, WARN, CheckedNode, Needs, checked_nodes, checks_for
from runs.life.preflight.pairs import connection_checks, unfit_in, version_checks
from runs.models import Node, Run
from runs.placing.fitting import Placed, Request, Waiting
from runs.values.columns import Check, CheckState
from trainyard.contract.base import SpecDocument
from trainyard.contract.machines import FolderState, GpuFaults
from trainyard.formats.figures import size
from trainyard.spec.sections.preflight import ALWAYS, NEVER, PreflightMode, mode_of

CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 300.0  # logs are out of order; certificates and links are not valid any more
DISK_WARN_BYTES, DISK_FAIL_BYTES = 1 << 30, 16 << 20
MEMORY_WARN_SHARE = 0.05
# Xids of faults of the GPU itself. Others are faults of the program (13, 31, 43, 45), or come with one of these.
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 92, 95, 119, 120, 140, 143})
XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45})
MAX_ROUNDS = 8  # of placing again without the nodes that failed
MAX_SENTENCES = 3

Answers = list[Placed | Waiting]
LeftOut = dict[str, dict[str, str]]  # by run, then by node: why


@dataclass
class Vetted:
    """The answers, and the nodes that runs do not have because of a check."""

    answers: Answers
    left_out: LeftOut = field(default_factory=dict)
    to_check: set[str] = field(default_factory=set)  # ids of nodes to check for runs with ``preflight: always``

    @property
    def placed(self) -> list[Placed]:
        return [answer for answer in self.answers if isinstance(answer, Placed)]

    def sentence_for(self, run_id: str) -> str:
        """Return the sentences about nodes that the run was not placed on; empty where there are none."""
        return " ".join(list(self.left_out.get(run_id, {}).values())[:MAX_SENTENCES])


def place_vetted(requests: Sequence[Request], place: Callable[[Sequence[Request]], Answers], now: datetime) -> Vetted:
    """Place the runs so that none is on a node that fails a check that matters for it, and return the answers."""
    vetted = Vetted(place(requests))
    view = View(vetted.placed, now)
    for _ in range(MAX_ROUNDS):
        found = view.problems()
        if not found:
            break
        for run_id, problems in found.items():
            vetted.left_out.setdefault(run_id, {}).update(problems)
        requests = [replace(one, excluded=one.excluded.union(found.get(one.run, ()))) for one in requests]
        vetted.answers = place(requests)
        view = View(vetted.placed, now)
    view.hold_back(vetted)
    vetted.answers = [explained(answer, vetted) for answer in vetted.answers]
    return vetted


def explained(answer: Placed | Waiting, vetted: Vetted) -> Placed | Waiting:
    why = vetted.sentence_for(answer.run)
    if isinstance(answer, Placed) or not why or not answer.sentence:
        return answer
    return replace(answer, sentence=f"{answer.sentence} {why}")


class View:
    """Facts about the nodes of some placements, and the needs of their runs."""

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
        """Let runs wait whose nodes are to be checked first."""
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
            continue  # placing leaves it out itself
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


# Checks of one node: its folders, clock, memory and GPUs. Pure.


def checks_of(node: CheckedNode) -> list[Check]:
    """Return the checks of the node alone. One that is out of contact has no other."""
    if not node.is_in_contact:
        return [node.check("contact", FAIL, f"{node.name} is out of contact.")]
    if node.own is None or node.own.home is None:
        sentence = f"{node.name} has not checked itself yet, or is of a version that does not."
        return [node.check("contact", WARN, sentence)]
    own = node.own
    checks = [*_folder_checks(node, own.checkpoints, "checkpoints"), *_folder_checks(node, own.home, "home")]
    checks += [*_clock_checks(node), *_memory_checks(node)]
    return [*checks, *(check for gpu in own.gpus or [] for check in _gpu_checks(node, gpu))]


def _folder_checks(node: CheckedNode, folder: FolderState | None, what: str) -> Iterator[Check]:
    if folder is None:
        return
    words = "folder of checkpoints" if what == "checkpoints" else "folder of attempts and output"
    if folder.problem:
        yield node.check(f"{what}-folder", FAIL, f"The {words} on {node.name}, {folder.path}, {folder.problem}.")
        return
    if folder.free_bytes is None:
        return
    free = folder.free_bytes
    state = FAIL if free < DISK_FAIL_BYTES else WARN if free < DISK_WARN_BYTES else OK
    sentence = f"{size(free)} are free for the {words} on {node.name}, {folder.path}."
    limit = float(DISK_FAIL_BYTES if state == FAIL else DISK_WARN_BYTES)
    yield node.check(f"{what}-disk", state, sentence, float(free), limit, "bytes")


def _clock_checks(node: CheckedNode) -> Iterator[Check]:
    ahead_s = None if node.own is None else node.own.clock_ahead_s
    if ahead_s is None:
        return
    off_s = abs(ahead_s)
    state = FAIL if off_s > CLOCK_FAIL_S else WARN if off_s > CLOCK_WARN_S else OK
    side = "ahead of" if ahead_s > 0 else "behind"
    off = f"{off_s:,.0f} s" if off_s >= 10 else f"{off_s:.3f} s"
    sentence = f"The clock of {node.name} is {off} {side} the server's."
    limit_s = CLOCK_FAIL_S if state == FAIL else CLOCK_WARN_S
    yield node.check("clock", state, sentence, round(ahead_s, 3), limit_s, "s")


def _memory_checks(node: CheckedNode) -> Iterator[Check]:
    free, total = node.free_memory_bytes, node.health.memory_bytes
    if free is None or not total:
        return
    limit = MEMORY_WARN_SHARE * total
    sentence = f"{size(free)} of {size(total)} of the memory of {node.name} are free."
    yield node.check("memory", WARN if free < limit else OK, sentence, float(free), round(limit), "bytes")


def _gpu_checks(node: CheckedNode, gpu: GpuFaults) -> Iterator[Check]:
    who = f"GPU {gpu.index} of {node.name}"
    if gpu.xid is not None and gpu.xid not in XIDS_OF_PROGRAMS:
        state = FAIL if gpu.xid in FATAL_XIDS else WARN
        sentence = f"{who} reported Xid {gpu.xid} since its node worker began."
        yield node.check("gpu", state, sentence, float(gpu.xid), unit="Xid")
    if gpu.ecc_errors:
        errors = f"{gpu.ecc_errors} uncorrected memory error{'s'[: gpu.ecc_errors != 1]}"
        sentence = f"{who} has had {errors} since its driver was loaded: reset it."
        yield node.check("gpu", FAIL, sentence, float(gpu.ecc_errors), 0.0, "errors")
    if gpu.slowed_by:
        sentence = f"{who} runs at a lower clock because of {' and '.join(gpu.slowed_by)}."
        yield node.check("gpu", WARN, sentence)
    if gpu.xid in (None, *XIDS_OF_PROGRAMS) and not gpu.ecc_errors and not gpu.slowed_by:
        yield node.check("gpu", OK, f"{who} reports no fault.", 0.0, 0.0, "errors")

"""Needs of one run's plan on a node: memory for its ranks, and room for a checkpoint. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from runs.models import Node
from runs.values.columns import Check, CheckState
from trainyard.contract.base import SpecDocument
from trainyard.contract.facts import EstimateDocument
from trainyard.contract.machines import Health, Inventory, SelfCheck
from trainyard.formats.figures import size

OK, WARN, FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL
WEIGHT_BYTES = 4  # a checkpoint has each parameter as a 32-bit number at least
STATE_BYTES = 12  # with the two moments of an optimizer
DEFAULT_KEPT = 3


@dataclass(frozen=True)
class Needs:
    """Estimates of the planner for a run. Zero where it does not know."""

    memory_bytes: tuple[float, ...] = ()  # by rank
    least_checkpoint_bytes: float = 0.0  # the weights alone
    checkpoints_bytes: float = 0.0  # all that are kept, and the one that is written

    @classmethod
    def of(cls, spec: SpecDocument, estimate: EstimateDocument | None) -> "Needs":
        if not estimate:
            return cls()
        section = spec.get("checkpoint") or {}
        parameters = float(estimate.get("num_parameters") or 0)
        writes = bool(section.get("every_steps"))
        kept = int(section.get("keep") or DEFAULT_KEPT) + 1
        return cls(
            memory_bytes=tuple(float(one.get("total") or 0.0) for one in estimate.get("memory") or []),
            least_checkpoint_bytes=WEIGHT_BYTES * parameters if writes else 0.0,
            checkpoints_bytes=STATE_BYTES * parameters * kept if writes else 0.0,
        )


def checks_for(needs: Needs, node: "CheckedNode", ranks: range) -> list[Check]:
    """Return the checks of a node on which these ranks of the run would be."""
    return [*_disk(needs, node), *_memory(needs, node, ranks)]


def _disk(needs: Needs, node: "CheckedNode") -> Iterator[Check]:
    folder = node.own.checkpoints if node.own else None
    if folder is None or folder.free_bytes is None or not needs.least_checkpoint_bytes:
        return
    free = float(folder.free_bytes)
    is_short = free < needs.least_checkpoint_bytes
    limit = needs.least_checkpoint_bytes if is_short else needs.checkpoints_bytes
    what = "one checkpoint of the run takes at least" if is_short else "the checkpoints that it keeps take about"
    state = FAIL if is_short else WARN if free < limit else OK
    sentence = f"{size(free)} are free for checkpoints on {node.name}; {what} {size(limit)}."
    yield node.check("checkpoints-need", state, sentence, free, limit, "bytes")


def _memory(needs: Needs, node: "CheckedNode", ranks: range) -> Iterator[Check]:
    wanted = [needs.memory_bytes[rank] for rank in ranks if rank < len(needs.memory_bytes)]
    if not wanted or not any(wanted):
        return
    if gpus := [gpu.memory_bytes for gpu in node.machine.gpus or [] if gpu.memory_bytes]:
        most, room = max(wanted), float(min(gpus))
        sentence = f"A rank of the run takes about {size(most)} of the {size(room)} of a GPU of {node.name}."
    else:
        free = node.free_memory_bytes
        if free is None:
            return
        most, room = sum(wanted), float(free)
        ranks_words = "rank takes" if len(wanted) == 1 else f"{len(wanted)} ranks take"
        sentence = f"The run's {ranks_words} about {size(most)}; {size(room)} of the memory of {node.name} are free."
    state = WARN if most > room else OK  # the planner may be wrong: it leaves no node out
    yield node.check("memory-need", state, sentence, most, room, "bytes")


# A node as checks see it: plain values, read from its row.


@dataclass(frozen=True)
class CheckedNode:
    """A node at one moment. ``own`` is None where the node reports no checks: it is of an older version."""

    id: str
    name: str
    is_in_contact: bool
    machine: Inventory
    version: str
    health: Health
    own: SelfCheck | None

    @property
    def software(self) -> tuple[str, str]:
        """Versions of Python and torch, without the digits that do not matter within a group of ranks."""
        return _release(self.machine.python), _release(self.machine.torch)

    @property
    def free_memory_bytes(self) -> int | None:
        total, used = self.health.memory_bytes, self.health.memory_used_bytes
        return None if total is None or used is None else max(0, total - used)

    def check(
        self, name: str, state: CheckState, sentence: str, value: float | None = None, limit: float | None = None,
        unit: str = "",
    ) -> Check:  # fmt: skip
        """Return the result of a check of this node."""
        return Check(name=name, state=state, sentence=sentence, node=self.name, value=value, limit=limit, unit=unit)


def checked_nodes(nodes: Iterable[Node], now: datetime) -> list[CheckedNode]:
    """Return them in the order of their names."""
    found = [
        CheckedNode(
            id=node.pk,
            name=node.name,
            is_in_contact=node.is_in_contact(now),
            machine=node.machine,
            version=node.version,
            health=node.health_now or Health(),
            own=node.own_checks,
        )
        for node in nodes
    ]
    return sorted(found, key=lambda one: one.name)


def _release(version: str | None) -> str:
    """Return major and minor number: 3.11 of 3.11.9, 2.13 of 2.13.0+cpu."""
    return ".".join((version or "").split("+")[0].split(".")[:2])

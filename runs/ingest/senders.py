"""The proven sender of an entry: the seal fits the node's key, and the node holds a placement of that attempt."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runs.ingest.commit import Source
from runs.models import Node, Placement, Run
from trainyard.contract.seals import BadSeal, check_mac, frames_scope

FIELDS = (b"n", b"r", b"a", b"f", b"m")
IDENTIFIER = re.compile(r"[a-z0-9]{0,12}")
KEPT_S = 5.0  # how long a key or a placement is believed without looking again
T = TypeVar("T")


class Unproven(ValueError):
    """The entry is not from the sender that it names, or is not an entry; the message has the reason. ``node_id``: the
    node that it names, where there is such a node."""

    def __init__(self, reason: str, node_id: str = "") -> None:
        super().__init__(reason)
        self.node_id = node_id


class RunGone(LookupError):
    """The run was deleted while its last records were on the way."""


class AttemptDone(LookupError):
    """The node had sent all of the attempt's records, and they had arrived: what comes now was sent twice, or later."""


@dataclass(frozen=True)
class Entry:
    """One entry of the stream, as it lies there."""

    id: bytes
    node_id: str
    run_id: str
    attempt_id: str
    fence: int
    data: bytes
    seal: str

    @property
    def is_health(self) -> bool:
        return not self.run_id


def parse(entry_id: bytes, fields: dict[bytes, bytes]) -> Entry:
    """Return the entry. Raises Unproven where fields are missing or no text."""
    try:
        node_id, run_id, attempt_id, fence, seal = (fields[name].decode("ascii") for name in FIELDS)
        entry = Entry(entry_id, node_id, run_id, attempt_id, int(fence), fields[b"d"], seal)
    except (KeyError, ValueError) as error:
        raise Unproven(f"the entry is not one: {error!r}") from error
    if not all(IDENTIFIER.fullmatch(part) for part in (node_id, run_id, attempt_id)) or not 0 <= entry.fence < 2**31:
        raise Unproven("the entry names no node, run and attempt")
    return entry


class Senders:
    """Answers from the database, remembered for a few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._nodes: _Cache[str, tuple[str, str]] = _Cache(clock)
        self._placements: _Cache[tuple[str, str, str, int], range] = _Cache(clock)

    def source(self, entry: Entry) -> Source:
        """Return who sent the entry. Raises Unproven, RunGone, or AttemptDone."""
        key, name = self._nodes.get(entry.node_id, lambda: _node(entry.node_id))
        try:
            check_mac(key, frames_scope(entry.node_id, entry.run_id, entry.fence), entry.data, entry.seal)
        except BadSeal as error:
            raise Unproven(str(error), entry.node_id) from error
        if entry.is_health:
            return Source(entry.node_id, name)
        pair = (entry.node_id, entry.attempt_id, entry.run_id, entry.fence)
        return Source(entry.node_id, name, ranks=self._placements.get(pair, lambda: _ranks(*pair)))


def _node(node_id: str) -> tuple[str, str]:
    node = Node.objects.filter(pk=node_id, removed_at=None).values_list("key", "name").first()
    if node is None:
        raise Unproven("there is no such node")
    return node


def _ranks(node_id: str, attempt_id: str, run_id: str, fence: int) -> range:
    """Return the ranks that the node has. Any attempt of the run will do, ended ones too, until everything of it has
    come: its points carry its fence."""
    placed = Placement.objects.filter(node=node_id, attempt=attempt_id, attempt__run=run_id, attempt__fence=fence)
    found = placed.values_list("done_at", "first_rank", "num_ranks").first()
    if found is None:
        if not Run.objects.filter(pk=run_id).exists():
            raise RunGone(run_id)
        raise Unproven(f"the node holds no placement of attempt {attempt_id[:12]!r} with fence {fence}", node_id)
    done_at, first, count = found
    if done_at is not None:
        raise AttemptDone(attempt_id)
    return range(first, first + count)


K = TypeVar("K")


class _Cache(Generic[K, T]):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[K, tuple[float, T]] = {}

    def get(self, key: K, load: Callable[[], T]) -> T:
        """Return the value, loaded when it is not known or old. What load() raises is not remembered."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None or now >= kept[0]:
            if len(self._kept) > 10_000:
                self._kept.clear()
            kept = self._kept[key] = (now + KEPT_S, load())
        return kept[1]

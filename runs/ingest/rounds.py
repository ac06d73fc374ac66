"""One round of ingest: entries of the stream, sorted by run and sender, and committed, each run for itself."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction

from runs.ingest.commit import Committed, Source, commit
from runs.ingest.memory import Memory
from runs.ingest.reader import StreamEntry
from runs.ingest.troubles import UNABLE, Letters, reason_of
from runs.ingest.validation.records import Incoming, incoming
from runs.models import Node, Placement, Run
from runs.records.metrics.models import NodeSample
from runs.serving import node_troubles
from runs.values.kept import Kept
from trainyard.contract.base import BadDocument, decode, encode, to_builtins
from trainyard.contract.locks import unlock_bytes
from trainyard.contract.machines import HealthSample
from trainyard.contract.seals import LOCKED, BadSeal, check_mac, frames_scope

FIELDS = (b"n", b"r", b"a", b"f", b"m")
IDENTIFIER = re.compile(r"[a-z0-9]{0,12}")
KEPT_S = 5.0  # how long a key or a placement is believed without looking again
# Health samples of nodes, which travel in the same stream as the records of runs.


def store_samples(samples: Iterable[tuple[str, bytes]], letters: Letters) -> None:
    """Store (node id, JSON document) pairs; one that came before is not stored twice, one that is none is kept as a
    dead letter."""
    rows = []
    for node_id, data in samples:
        try:
            document = to_builtins(decode(data, HealthSample, takes_nan=False))
            rows.append(NodeSample(node_id=node_id, at=document.pop("at"), health=document))
        except BadDocument as error:
            _bury(letters, node_id, data, str(error))
    try:
        _write(rows)
    except UNABLE:
        raise
    except Exception as error:  # one of them holds what the database cannot: find it
        log.warning("ingest.samples_refused", error=str(error))
        for row in rows:
            try:
                _write([row])
            except UNABLE:
                raise
            except Exception as reason:
                _bury(letters, row.node_id, encode(row.health).encode(), str(reason))


def _write(rows: list[NodeSample]) -> None:
    with transaction.atomic(using=settings.METRICS_DATABASE):
        NodeSample.objects.bulk_create(rows, ignore_conflicts=True)


def _bury(letters: Letters, node_id: str, data: bytes, reason: str) -> None:
    letters.write(data, f"health sample: {reason}", node_id=node_id)


log = structlog.get_logger(__name__)

LOG_EVERY = 1000  # of entries that are not taken

Group = tuple[str, int, Source]  # run, fence, who sent it


@dataclass
class Work:
    """Entries of a round, sorted by what they hold."""

    batches: dict[Group, list[Incoming]] = field(default_factory=dict)
    health: "list[IngestEntry]" = field(default_factory=list)
    unproven: list[tuple[bytes, str]] = field(default_factory=list)  # data, why


class Rounds:
    def __init__(self) -> None:
        self.letters = Letters()
        self._senders = Senders()
        self._memory = Memory()
        self._num_unproven = 0

    def sort(self, entries: list[StreamEntry]) -> Work:
        """Return the frames of each run and sender. Of a run that is gone nothing is left."""
        work, refused = Work(), Counter[str]()
        for entry_id, fields in entries:
            try:
                entry = parse(entry_id, fields)
                source, data = self._senders.opened(entry)
            except Over:
                continue
            except Unproven as error:
                self._num_unproven += 1
                refused[error.node_id] += 1
                if self._num_unproven % LOG_EVERY == 1:  # whoever reaches Valkey can send a million
                    log.warning("ingest.unproven", reason=str(error), number=self._num_unproven)
                work.unproven.append((fields.get(b"d", b""), str(error)))
                continue
            if entry.is_health:
                work.health.append(entry)
            else:
                batch = work.batches.setdefault((entry.run_id, entry.fence, source), [])
                batch += incoming(data)
        for node_id in refused.keys() - {""}:
            node_troubles.note(node_id, node_troubles.UNPROVEN, refused[node_id])
        return work

    def commit(self, work: Work) -> list[Committed]:
        """Store it all, within the caller's transaction. Raises what says that the database cannot work now; after
        that, and when the caller's transaction fails, the caller must forget()."""
        if work.health:
            store_samples(((entry.node_id, entry.data) for entry in work.health), self.letters)
        for data, reason in work.unproven:
            self.letters.write(data, reason)
        # In one order, so that two that both think the shard is theirs do not wait for each other.
        groups = sorted(work.batches.items(), key=lambda pair: pair[0][:2])
        return [self._commit(group, batch) for group, batch in groups]

    def bury(self, entry: StreamEntry, error: Exception) -> None:
        node_id = entry[1].get(b"n", b"").decode("ascii", "replace")[:12]
        reason = f"the entry could not be stored: {reason_of(error)}"
        self.letters.write(entry[1].get(b"d", b""), reason, node_id=node_id)
        if Node.objects.filter(pk=node_id).exists():
            node_troubles.note(node_id, node_troubles.ENTRIES)

    def forget(self) -> None:
        self._memory.clear()

    def _commit(self, group: Group, batch: list[Incoming]) -> Committed:
        """Commit the batch. Frames that the database itself cannot hold are found by committing them one by one."""
        try:
            return self._attempt(group, batch)
        except UNABLE:
            raise
        except Exception as error:
            log.warning("ingest.batch_refused", run=group[0], frames=len(batch), error=reason_of(error))
        changes = []
        for item in batch:
            try:
                changes.append(self._attempt(group, [item]))
            except UNABLE:
                raise
            except Exception as error:
                reason = reason_of(error)
                log.error(
                    "ingest.bad_record", run=group[0], producer=item.producer, sequence=item.sequence, error=reason
                )
                bad = Incoming(item.raw, item.producer, item.sequence, problem=f"it could not be stored: {reason}")
                changes.append(self._attempt(group, [bad]))
        return _together(changes)

    def _attempt(self, group: Group, batch: list[Incoming]) -> Committed:
        run_id, fence, source = group
        return commit(run_id, fence=fence, source=source, batch=batch, memory=self._memory, letters=self.letters)


def _together(changes: list[Committed]) -> Committed:
    return replace(
        changes[-1],
        start=changes[0].start,
        pieces=[piece for change in changes for piece in change.pieces],
        lines=[lines for change in changes for lines in change.lines],
        has_checkpoints=any(change.has_checkpoints for change in changes),
        has_media=any(change.has_media for change in changes),
        has_end=any(change.has_end for change in changes),
    )


# The proven sender of an entry: the seal fits the node's key, and the node holds a placement of that attempt.


class Unproven(ValueError):
    """The entry is not from the sender that it names, or is not an entry; the message has the reason. ``node_id``: the
    node that it names, where there is such a node."""

    def __init__(self, reason: str, node_id: str = "") -> None:
        super().__init__(reason)
        self.node_id = node_id


class Over(LookupError):
    """The run was deleted while its last records were on the way, or the node had sent all of the attempt's, and they
    had arrived: what comes now was sent twice, or later."""


class IngestEntry(NamedTuple):
    """One entry of the stream, as it lies there."""

    id: bytes
    node_id: str
    run_id: str
    attempt_id: str
    fence: int
    data: bytes
    seal: str
    is_locked: bool = False  # only the node's key opens the data

    @property
    def is_health(self) -> bool:
        return not self.run_id


def parse(entry_id: bytes, fields: dict[bytes, bytes]) -> IngestEntry:
    """Return the entry. Raises Unproven where fields are missing or no text."""
    try:
        node_id, run_id, attempt_id, fence, seal = (fields[name].decode("ascii") for name in FIELDS)
        is_locked = fields.get(b"e") == LOCKED.encode()
        entry = IngestEntry(entry_id, node_id, run_id, attempt_id, int(fence), fields[b"d"], seal, is_locked)
    except (KeyError, ValueError) as error:
        raise Unproven(f"the entry is not one: {error!r}") from error
    if not all(IDENTIFIER.fullmatch(part) for part in (node_id, run_id, attempt_id)) or not 0 <= entry.fence < 2**31:
        raise Unproven("the entry names no node, run and attempt")
    return entry


class Senders:
    """Answers from the database, remembered for a few seconds."""

    def __init__(self) -> None:
        self._nodes = Kept[tuple[str, str]](KEPT_S)
        self._placements = Kept[range](KEPT_S)

    def opened(self, entry: IngestEntry) -> tuple[Source, bytes]:
        """Return who sent the entry, and its frames. Raises Unproven or Over."""
        key, name = self._nodes.get(entry.node_id, lambda: _node(entry.node_id))
        scope = frames_scope(entry.node_id, entry.run_id, entry.fence)
        try:
            if entry.is_locked:  # what opens proves the key as a seal does
                data = unlock_bytes(key, scope, entry.data)
            else:
                check_mac(key, scope, data := entry.data, entry.seal)
        except BadSeal as error:
            raise Unproven(str(error), entry.node_id) from error
        if entry.is_health:
            return Source(entry.node_id, name), data
        pair = (entry.node_id, entry.attempt_id, entry.run_id, entry.fence)
        return Source(entry.node_id, name, ranks=self._placements.get(pair, lambda: _ranks(*pair))), data


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
            raise Over(run_id)
        raise Unproven(f"the node holds no placement of attempt {attempt_id[:12]!r} with fence {fence}", node_id)
    done_at, first, count = found
    if done_at is not None:
        raise Over(attempt_id)
    return range(first, first + count)

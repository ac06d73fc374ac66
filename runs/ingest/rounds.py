"""One round of ingest: entries of the stream, sorted by run and sender, and committed, each run for itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog

from runs import node_troubles
from runs.ingest.commit import Committed, Source, commit
from runs.ingest.dead_letters import UNABLE, Letters, reason_of
from runs.ingest.memory import Memory
from runs.ingest.reader import StreamEntry
from runs.ingest.samples import store_samples
from runs.ingest.senders import AttemptDone, Entry, RunGone, Senders, Unproven, parse
from runs.ingest.validation.records import Incoming, incoming
from runs.models import Node

log = structlog.get_logger(__name__)

LOG_EVERY = 1000  # of entries that are not taken

Group = tuple[str, int, Source]  # run, fence, who sent it


@dataclass
class Work:
    """What the entries of a round hold."""

    batches: dict[Group, list[Incoming]] = field(default_factory=dict)
    health: list[Entry] = field(default_factory=list)
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
                source = self._senders.source(entry)
            except (RunGone, AttemptDone):
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
                batch += incoming(entry.data)
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
        """Keep an entry that cannot be stored."""
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
    last = changes[-1]
    return Committed(
        run_id=last.run_id,
        attempt=last.attempt,
        start=changes[0].start,
        cursor=last.cursor,
        pieces=[piece for change in changes for piece in change.pieces],
        lines=[lines for change in changes for lines in change.lines],
        has_checkpoints=any(change.has_checkpoints for change in changes),
        has_media=any(change.has_media for change in changes),
        has_end=any(change.has_end for change in changes),
        watermarks=last.watermarks,
    )

"""The chain: the only place that adds rows of the audit, and the check that none was changed.

A row's hash is SHA-256 over its canonical JSON, in which the hash of the row before stands. The head row is locked
while a row is added, so that the chain never forks. It carries a seal made with the server's secret: whoever can write
the database alone cannot make another chain that fits. A seal that does not fit is never made anew. That the head is
the newest is known outside of the database: see runs.audit.anchor.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Subquery
from django.utils import timezone
from django.utils.crypto import salted_hmac

from runs.audit import anchor, sinks
from runs.audit.acts import Act, Values
from runs.audit.facts import canonical
from runs.models.security.audit import AuditEntry, AuditHead

log = structlog.get_logger(__name__)

READ_AT_ONCE = 1_000
ACCEPTING = "After a restore, or with a new SECRET_KEY: `trainyard manage audit accept`."
TRIES = 3  # of a check that retention overtook


class Fault(NamedTuple):
    """The first row that does not fit. ``sequence`` is 0 where it is the head."""

    sequence: int
    sentence: str


class Verdict(NamedTuple):
    first: int  # the first row that is there
    last: int
    num_rows: int
    head: str  # hash of the last row
    fault: Fault | None


def append(act: Act) -> AuditEntry:
    """Add the act as the next row."""
    with transaction.atomic():
        head = locked_head()
        row = AuditEntry(
            sequence=head.sequence + 1,
            at=timezone.now(),
            actor=act.actor[:200],
            actor_number=act.actor_number,
            token=act.token[:120],
            address=act.address[:64],
            action=act.action[:120],
            object=act.object[:200],
            project=act.project[:80],
            before=canonical(act.before) if act.before else "",
            after=canonical(_with_number(act)) if act.after or act.num_left_out else "",
            result=act.result[:200],
            repeats=act.repeats,
            previous_hash=head.hash,
        )
        row.hash = hash_of(row)
        row.save()
        head.sequence, head.hash = row.sequence, row.hash
        seal(head)
        head.save()
    transaction.on_commit(lambda: anchor.advance(row))
    transaction.on_commit(lambda: sinks.send(row))
    return row


def _with_number(act: Act) -> dict[str, Values]:
    return {**act.after, "more": {"rows": act.num_left_out}} if act.num_left_out else act.after


def locked_head() -> AuditHead:
    """Return the head, locked until the transaction ends. Only the first row finds none."""
    head = AuditHead.objects.select_for_update().filter(pk=1).first()
    if head is None:
        AuditHead.objects.get_or_create(pk=1)
        head = AuditHead.objects.select_for_update().get(pk=1)
    if head.sequence and not is_sealed(head):
        head.is_forged = True
        log.critical("audit.seal_broken", row=head.sequence)
    return head


def hash_of(row: AuditEntry) -> str:
    content = {
        "sequence": row.sequence,
        "at": row.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": row.actor,
        "actor_number": row.actor_number,
        "token": row.token,
        "address": row.address,
        "action": row.action,
        "object": row.object,
        "project": row.project,
        "before": row.before,
        "after": row.after,
        "result": row.result,
        "repeats": row.repeats,
        "previous": row.previous_hash,
    }
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def seal(head: AuditHead) -> None:
    """Set the head's seal; the caller saves. That of a forged head stays, so that it is found."""
    if not head.is_forged:
        head.seal = _seal_of(head)


def is_sealed(head: AuditHead) -> bool:
    return hmac.compare_digest(head.seal, _seal_of(head))


def _seal_of(head: AuditHead) -> str:
    text = f"{head.sequence}|{head.hash}|{head.cut_sequence}|{head.cut_hash}"
    return salted_hmac("runs.audit.chain", text, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def verify() -> Verdict:
    """Check every row up to the head as it is now. Rows that are added meanwhile are the next check's."""
    verdict = _verify()
    for _ in range(TRIES):
        if verdict.fault is None or AuditHead.objects.filter(cut_sequence__gte=verdict.first).first() is None:
            break
        verdict = _verify()  # retention has removed rows meanwhile
    return verdict


def accept(actor: str) -> Verdict:
    """Take the chain as it is now for the newest, though an anchor or a seal says otherwise: after a restore, or under
    a new SECRET_KEY. That is a row itself. A chain with another fault stays as it is."""
    with transaction.atomic():
        head = locked_head()
        verdict = _verify_rows(trusts_head=True)
        if verdict.fault is None:
            known = anchor.read_any()
            anchor.forget()
            head.is_forged = False
            seal(head)
            head.save()
            before = {} if known is None else {"head": {"sequence": known.sequence, "hash": known.hash}}
            append(Act(actor=actor, action="audit.accept", object="head of the chain", before=before, result="ok"))
    return verdict


def _verify() -> Verdict:
    known, fault = None, None
    try:
        known = anchor.read()  # before the head: rows are added meanwhile
    except (OSError, anchor.BadAnchor) as error:
        fault = Fault(0, f"{error} {ACCEPTING}")
    verdict = _verify_rows()
    if known is not None and not known.is_there():
        fault = _fault_of_anchor(known, verdict.last)
    return verdict if verdict.fault is not None else verdict._replace(fault=fault)


def _fault_of_anchor(known: anchor.Anchor, last: int) -> Fault:
    if known.sequence > last:
        return Fault(last + 1, f"Rows {last + 1} to {known.sequence} are missing at the end. {ACCEPTING}")
    words = f"Row {known.sequence} is not the one that was the newest when {anchor.path()} was written."
    return Fault(known.sequence, f"{words} {ACCEPTING}")


def _verify_rows(*, trusts_head: bool = False) -> Verdict:
    """Check what the database has. ``trusts_head``: whatever its seal."""
    head = AuditHead.objects.filter(pk=1).first()
    if head is None:
        left = AuditEntry.objects.order_by("sequence").first()
        fault = None if left is None else Fault(0, "The head of the chain is missing, and rows are there.")
        return Verdict(1, 0, 0, "", fault)
    first = head.cut_sequence + 1
    number, last_hash, fault = _walk(rows_from(first, head.sequence), first, head.cut_hash)
    if fault is None:
        fault = _fault_of_head(head, first + number - 1, last_hash, trusts_head)
    return Verdict(first, head.sequence, number, last_hash, fault)


def rows_from(first: int, last: int) -> Iterator[AuditEntry]:
    """Yield the rows by their numbers, some at a time: no transaction stays open."""
    before = first - 1
    while rows := list(
        AuditEntry.objects.filter(sequence__gt=before, sequence__lte=last).order_by("sequence")[:READ_AT_ONCE]
    ):
        yield from rows
        before = rows[-1].sequence


def _walk(rows: Iterable[AuditEntry], first: int, hash_before: str) -> tuple[int, str, Fault | None]:
    number, known = 0, hash_before
    for row in rows:
        expected = first + number
        if row.sequence != expected:
            missing = (
                f"Row {expected} is" if row.sequence == expected + 1 else f"Rows {expected} to {row.sequence - 1} are"
            )
            return number, known, Fault(expected, f"{missing} missing.")
        if hash_of(row) != row.hash:
            return number, known, Fault(row.sequence, f"Row {row.sequence} was changed: its hash does not fit it.")
        if not hmac.compare_digest(row.previous_hash, known):
            return number, known, Fault(row.sequence, f"Row {row.sequence} does not follow on the row before it.")
        number, known = number + 1, row.hash
    return number, known, None


def _fault_of_head(head: AuditHead, last: int, last_hash: str, trusts_head: bool) -> Fault | None:
    if last < head.sequence:
        return Fault(last + 1, f"Rows {last + 1} to {head.sequence} are missing at the end.")
    if head.hash != last_hash:
        return Fault(head.sequence, f"Row {head.sequence} is not the one that the head of the chain names.")
    if not trusts_head and not is_sealed(head):
        return Fault(
            0, f"The seal of the head does not fit: it was written without the server's SECRET_KEY. {ACCEPTING}"
        )
    ends = AuditHead.objects.filter(pk=1).values("sequence")  # of now, in one statement: rows are added meanwhile
    if beyond := AuditEntry.objects.filter(sequence__gt=Subquery(ends)).order_by("sequence").first():
        return Fault(beyond.sequence, f"Row {beyond.sequence} stands behind the end of the chain.")
    if AuditEntry.objects.filter(sequence__lte=head.cut_sequence).exists():
        return Fault(0, f"Rows up to {head.cut_sequence} were removed, and one of them is there again.")
    return None

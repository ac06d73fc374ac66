"""The chain: the only place that adds rows of the audit and removes old ones, and the check that none was changed.

A row's hash is SHA-256 over its canonical JSON, in which the hash of the row before stands. The head row is locked
while a row is added, so that the chain never forks. It carries a seal made with the server's secret: whoever can write
the database alone cannot make another chain that fits. A seal that does not fit is never made anew. That the head is
the newest is known outside of the database: see runs.rights.audit.anchor.
"""

import contextlib
import hashlib
import hmac
import json
import os
import queue
import socket
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Subquery
from django.utils import timezone
from django.utils.crypto import salted_hmac

from runs.models.security import AuditEntry, AuditHead
from runs.rights.audit import anchor
from runs.rights.audit.facts import Act, as_attributes, as_time, as_written, canonical
from runs.serving.collectors import SyslogPlace

# Rows of the audit for another system, as syslog (RFC 5424) writes them. Off unless AUDIT_SYSLOG names a place.
#
# A thread of its own sends, from a queue with an end: a collector that is away costs lines there and a warning here,
# and never an answer to a person. The rows themselves are in the database.

MAX_WAITING = 2_000
CONNECT_S = 5.0
PRIORITY = 13 * 8 + 5  # facility 13 is "log audit", severity 5 is "notice"
ENTERPRISE = "trainyard@32473"  # the number of RFC 5612 for documentation


def as_syslog(row: AuditEntry) -> bytes:
    """Return the row as one message of RFC 5424: facts as structured data, the sentence as text."""
    facts = as_attributes(as_written(row), without=("at", "before", "after"))
    data = " ".join(f'{name}="{_escaped(str(value))}"' for name, value in facts.items())
    details = json.dumps({"before": row.values_before, "after": row.values_after}, separators=(",", ":"))
    host = socket.gethostname()[:255] or "-"
    head = f"<{PRIORITY}>1 {as_time(row.at)} {host} trainyard {os.getpid()} audit [{ENTERPRISE} {data}]"
    return f"{head} \ufeff{details}".encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]").replace("\n", " ")


def send(row: AuditEntry) -> None:
    """Hand the row to the sender, if there is a place. Never waits, never raises."""
    if settings.AUDIT_SYSLOG is not None:
        _sender(settings.AUDIT_SYSLOG).put(as_syslog(row))


class AuditSender:
    def __init__(self, place: SyslogPlace) -> None:
        self._place = place
        self._waiting: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        self._socket: socket.socket | None = None
        self.num_dropped = 0
        threading.Thread(target=self._run, name="audit-syslog", daemon=True).start()

    def put(self, message: bytes) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._drop("the queue is full")

    def _run(self) -> None:
        while True:
            message = self._waiting.get()
            for is_last in (False, True):  # a connection that the collector closed shows when it is used
                try:
                    self._send(message)
                    break
                except OSError as error:
                    self._close()
                    if is_last:
                        self._drop(str(error))

    def _send(self, message: bytes) -> None:
        if self._socket is None:
            self._socket = self._connected()
        if self._place.kind == "tcp":  # RFC 6587: the length stands before each message
            self._socket.sendall(f"{len(message)} ".encode() + message)
        else:
            self._socket.send(message)

    def _connected(self) -> socket.socket:
        kind, host, port = self._place
        if kind == "tcp":
            return socket.create_connection((host, port), timeout=CONNECT_S)
        if kind == "unix":
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            made.connect(host)
            return made
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.connect(address)
        return made

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _drop(self, why: str) -> None:
        self.num_dropped += 1
        if self.num_dropped & (self.num_dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th …
            log.warning("audit.not_sent", dropped=self.num_dropped, error=why)


_sender = cache(AuditSender)
log = structlog.get_logger(__name__)

READ_AT_ONCE, REMOVED_AT_ONCE = 1_000, 5_000
ACCEPTING = "After a restore, or with a new SECRET_KEY: `trainyard manage audit accept`."
TRIES = 3  # of a check that retention overtook
# Columns that go into a row's hash as they are, beside its time and the hash of the row before.
HASHED = (
    "sequence", "actor", "actor_number", "token", "address", "action", "object", "project", "before", "after", "result",
    "repeats",
)  # fmt: skip


class Fault(NamedTuple):
    """The first row that does not fit. ``sequence`` is 0 where it is the head."""

    sequence: int
    sentence: str


class ChainVerdict(NamedTuple):
    first: int  # the first row that is there
    last: int
    num_rows: int
    head: str  # hash of the last row
    fault: Fault | None


def append(act: Act) -> AuditEntry:
    """Add the act as the next row."""
    after = {**act.after, "more": {"rows": act.num_left_out}} if act.num_left_out else act.after
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
            after=canonical(after) if after else "",
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
    transaction.on_commit(lambda: send(row))
    return row


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
    content = {name: getattr(row, name) for name in HASHED}
    content |= {"at": row.at.astimezone(UTC).isoformat(timespec="microseconds"), "previous": row.previous_hash}
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


def verify() -> ChainVerdict:
    """Check every row up to the head as it is now. Rows that are added meanwhile are the next check's."""
    verdict = _verify()
    for _ in range(TRIES):
        if verdict.fault is None or AuditHead.objects.filter(cut_sequence__gte=verdict.first).first() is None:
            break
        verdict = _verify()  # retention has removed rows meanwhile
    return verdict


def accept(actor: str) -> ChainVerdict:
    """Take the chain as it is now for the newest, though an anchor or a seal says otherwise: after a restore, or under
    a new SECRET_KEY. That is a row itself. A chain with another fault stays as it is."""
    with transaction.atomic():
        head = locked_head()
        verdict = _verify_rows(trusts_head=True)
        if verdict.fault is None:
            known = None
            with contextlib.suppress(OSError, anchor.BadAnchor):
                known = anchor.read()
            anchor.forget()
            head.is_forged = False
            seal(head)
            head.save()
            before = {} if known is None else {"head": {"sequence": known.sequence, "hash": known.hash}}
            append(Act(actor=actor, action="audit.accept", object="head of the chain", before=before, result="ok"))
    return verdict


def _verify() -> ChainVerdict:
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


def _verify_rows(*, trusts_head: bool = False) -> ChainVerdict:
    """Check what the database has. ``trusts_head``: whatever its seal."""
    head = AuditHead.objects.filter(pk=1).first()
    if head is None:
        left = AuditEntry.objects.order_by("sequence").first()
        fault = None if left is None else Fault(0, "The head of the chain is missing, and rows are there.")
        return ChainVerdict(1, 0, 0, "", fault)
    first = head.cut_sequence + 1
    number, last_hash, fault = _walk(rows_from(first, head.sequence), first, head.cut_hash)
    if fault is None:
        fault = _fault_of_head(head, first + number - 1, last_hash, trusts_head)
    return ChainVerdict(first, head.sequence, number, last_hash, fault)


def rows_from(first: int, last: int) -> Iterator[AuditEntry]:
    """Yield the rows by their numbers, some at a time: no transaction stays open."""
    before, found = first - 1, AuditEntry.objects.filter(sequence__lte=last).order_by("sequence")
    while rows := list(found.filter(sequence__gt=before)[:READ_AT_ONCE]):
        yield from rows
        before = rows[-1].sequence


def _walk(rows: Iterable[AuditEntry], first: int, hash_before: str) -> tuple[int, str, Fault | None]:
    number, known = 0, hash_before
    for row in rows:
        expected = first + number
        if row.sequence != expected:
            last = row.sequence - 1
            missing = f"Row {expected} is" if last == expected else f"Rows {expected} to {last} are"
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
        words = "The seal of the head does not fit: it was written without the server's SECRET_KEY."
        return Fault(0, f"{words} {ACCEPTING}")
    ends = AuditHead.objects.filter(pk=1).values("sequence")  # of now, in one statement: rows are added meanwhile
    if beyond := AuditEntry.objects.filter(sequence__gt=Subquery(ends)).order_by("sequence").first():
        return Fault(beyond.sequence, f"Row {beyond.sequence} stands behind the end of the chain.")
    if AuditEntry.objects.filter(sequence__lte=head.cut_sequence).exists():
        return Fault(0, f"Rows up to {head.cut_sequence} were removed, and one of them is there again.")
    return None


def remove_old(now: datetime) -> int:
    """Remove rows older than AUDIT_KEEP_DAYS, some at a time, and return how many. 0 days: none."""
    days = settings.AUDIT_KEEP_DAYS
    return remove_before(now - timedelta(days=days)) if days else 0


def remove_before(before: datetime) -> int:
    """Remove rows from before that time, at most REMOVED_AT_ONCE; the head keeps number and hash of the last that went,
    so that the rest can still be checked. Rows go in their order: an older time behind a newer one,
    as a clock that was set back leaves, waits for it, and so does a row that the collector of OTLP has not taken."""
    if not AuditEntry.objects.filter(at__lt=before).exists():
        return 0
    with transaction.atomic():
        head = locked_head()
        kept = AuditEntry.objects.filter(at__gte=before).order_by("sequence").values_list("sequence", flat=True).first()
        last = min(head.cut_sequence + REMOVED_AT_ONCE, head.sequence if kept is None else kept - 1)
        if settings.AUDIT_OTLP is not None:
            last = min(last, head.sent_sequence or 0)  # what the collector has not taken waits for it
        edge = AuditEntry.objects.filter(sequence=last).first()
        if edge is None:
            return 0
        number = last - head.cut_sequence
        head.cut_sequence, head.cut_hash = edge.sequence, edge.hash
        seal(head)
        head.save()  # first: the database's trigger lets go of rows up to the cut alone
        rows = AuditEntry.objects.filter(sequence__lte=last)
        rows._raw_delete(rows.db)
        append(Act(action="audit.cut", object=f"rows up to {last}", result="ok", after={"cut": {"hash": edge.hash}}))
    log.info("audit.cut", rows=number, up_to=last)
    return number

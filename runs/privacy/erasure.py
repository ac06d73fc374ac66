"""Erasing a person, for good: now, and by a list of erasures wherever an older copy of the database brings them back.

The row of the person goes, and with it everything that is theirs alone. What belongs to a project stays and names
nobody. Rows of the audit are not touched (docs/decisions/privacy.md): whoever reads them sees a pseudonym.
"""

import fcntl
import hmac
import json
import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import structlog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models, transaction
from django.db.models import Q
from django.utils.crypto import salted_hmac

from runs.models import Attempt, ErasedPerson, Event, Invitation, PersonalExport, Run, RunCode, Sweep, Trial, User
from runs.models.privacy import pseudonym_of
from runs.privacy.exporting import path_of
from runs.privacy.retention import forget
from runs.rights.audit.facts import Act, acting
from runs.rights.audit.recording import OK, record
from runs.values.refused import Refused
from trainyard.contract.base import BadDocument, WireStruct, decode

SALT = "runs.privacy.erasure"


class BadList(ValueError):
    """A line of the list was not written by this server."""


class Tombstone(WireStruct):
    """One erased person, as a line of the list."""

    number: int
    digest: str
    at: str
    runs: list[str]
    seal: str = ""


def digest_of(user: User) -> str:
    """Return what tells the person from whoever else gets the number: keyed, so that it is a guess for nobody."""
    # In whole seconds: a form of the admin knows no less.
    return _keyed(f"{user.pk}|{int(user.date_joined.timestamp())}")


def line_of(row: ErasedPerson) -> str:
    content = _content(row.number, row.digest, row.at.isoformat(), row.runs)
    return json.dumps({**json.loads(content), "seal": _keyed(content)}, separators=(",", ":"))


def parsed(lines: Iterable[str]) -> list[ErasedPerson]:
    """Return the rows of a list, which are not saved. Raises BadList, naming the line."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = decode(line.encode(), Tombstone)
            at = datetime.fromisoformat(one.at)
        except (BadDocument, ValueError) as error:
            raise BadList(f"Line {number} of the list of erasures cannot be read: {error}") from error
        if not hmac.compare_digest(one.seal, _keyed(_content(one.number, one.digest, one.at, one.runs))):
            raise BadList(f"Line {number} of the list of erasures was not written with this server's SECRET_KEY.")
        found.append(ErasedPerson(number=one.number, digest=one.digest, at=at, runs=one.runs))
    return found


def list_path() -> Path:
    return Path(settings.ERASURES_FILE)


def read_list(path: Path) -> list[ErasedPerson]:
    """Return the rows of the file; none where there is no file. Raises BadList and OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    whole, _, _ = text.rpartition("\n")  # what stands behind the last line was cut off while it was written
    return parsed(whole.split("\n"))


def append(row: ErasedPerson) -> None:
    """Add a line, which is on the disk when this returns."""
    path = list_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(file.read().rfind(b"\n") + 1)  # over a line that was cut off
        file.truncate()
        file.write(f"{line_of(row)}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def _content(number: int, digest: str, at: str, runs: list[str]) -> str:
    return json.dumps({"number": number, "digest": digest, "at": at, "runs": sorted(runs)}, separators=(",", ":"))


def _keyed(text: str) -> str:
    return salted_hmac(SALT, text, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


log = structlog.get_logger(__name__)

# Sentences that may name who asked for something.
SENTENCES: tuple[tuple[type[models.Model], str], ...] = (
    (Event, "sentence"),
    (Run, "reason_sentence"),
    (Attempt, "reason_sentence"),
    (Sweep, "reason_sentence"),
    (Trial, "reason"),
)
BY_LIST = "the list of erasures"


def erase(user: User, now: datetime, runs: Collection[str] = ()) -> ErasedPerson:
    """Erase the person, and delete these runs with all that they left."""
    row = put_on_list(user, now, runs)
    carry_out(user, row)
    return row


def put_on_list(user: User, now: datetime, runs: Collection[str] = ()) -> ErasedPerson:
    """Put the person on the list of erasures, which comes first: whoever is on the list and still there is erased by
    the next look at it."""
    row = ErasedPerson(number=user.pk, digest=digest_of(user), runs=sorted(runs), at=now)
    append(row)
    return row


def carry_out(user: User, row: ErasedPerson) -> None:
    """Erase the person, who is on the list, and delete these runs with all that they left."""
    _erase(user, row)
    _delete_runs(row.runs)
    log.info("person.erased", person=row.number, runs=len(row.runs))


def catch_up() -> int:
    """Erase again whom the list or the table names and who is here, as after a restore. Returns how many were.

    Raises BadList, and OSError for a list that cannot be read.
    """
    listed = {row.number: row for row in read_list(list_path())}
    stored = {row.number: row for row in ErasedPerson.objects.all()}
    for number in stored.keys() - listed.keys():
        append(stored[number])
    return erase_again([*listed.values(), *(stored[number] for number in stored.keys() - listed.keys())])


def erase_again(rows: Iterable[ErasedPerson]) -> int:
    """Erase those of the rows' people who are here, and return how many they were. Whoever has the number of one and
    was made at another time is somebody else."""
    num_erased = 0
    for row in rows:
        user = User.objects.filter(pk=row.number).first()
        if user is not None and digest_of(user) == row.digest:
            _erase(user, row)
            log.warning("person.erased_again", person=row.number)
            record(Act(actor=BY_LIST, action="person.erase-again", object=f"user {row.number}", result=OK))
            num_erased += 1
        elif not ErasedPerson.objects.filter(pk=row.number).exists():
            row.save(force_insert=True)
        _delete_runs(row.runs)
    return num_erased


def names_of(user: User) -> list[str]:
    """Return what the person is called in sentences, the longest first."""
    return sorted({name for name in (user.username, user.get_full_name()) if name}, key=len, reverse=True)


def _erase(user: User, row: ErasedPerson) -> None:
    """The audit has that it was done, and nothing of what was there. Whoever is interrupted begins again while the
    person is there."""
    exports = list(PersonalExport.objects.filter(user=user).values_list("pk", flat=True))
    keys = list(user.browser_sessions.values_list("session_key", flat=True))
    with acting(None):
        _rename(user, pseudonym_of(user.pk))  # looks through all sentences: not while the transaction keeps others out
    with acting(None), transaction.atomic():
        RunCode.objects.filter(run__created_by=user).update(author="", authored_at=None)
        addresses = Q(accepted_by=user) | (Q(email__iexact=user.email) if user.email else Q(pk=None))
        Invitation.objects.filter(addresses).update(email="")
        Session.objects.filter(session_key__in=keys).delete()
        User.objects.get(pk=user.pk).delete()
        if not ErasedPerson.objects.filter(pk=row.number).exists():
            row.save(force_insert=True)
    for export_id in exports:
        path_of(export_id).unlink(missing_ok=True)


def _rename(user: User, pseudonym: str) -> None:
    """Take the person's name out of sentences. Where the row does not say that it was they, the name must stand as
    sentences of ours have it: a person may be called as any word."""
    for name in names_of(user):
        alone = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        as_actor = re.compile(rf"(^|\bby |\bof ){re.escape(name)}(?= |\.|,|$)")
        _replace(Event.objects.filter(actor=user, sentence__contains=name), "sentence", alone, pseudonym)
        for model, field in SENTENCES:
            rows = model._default_manager.filter(**{f"{field}__contains": name})
            _replace(rows, field, as_actor, rf"\g<1>{pseudonym}")


def _replace(rows: models.QuerySet[models.Model], field: str, pattern: re.Pattern[str], by: str) -> None:
    for pk, text in list(rows.values_list("pk", field)):
        changed = pattern.sub(by, text)
        if changed != text:
            rows.model._default_manager.filter(pk=pk).update(**{field: changed})


def _delete_runs(run_ids: Collection[str]) -> None:
    for run in Run.objects.filter(pk__in=list(run_ids)):
        with suppress(Refused):  # its files cannot be deleted now: the log says so, and the next look tries again
            forget(run)

"""Erasing a person, for good: now, and again wherever an older copy of the database brings them back.

The row of the person goes, and with it everything that is theirs alone. What belongs to a project stays and names
nobody. Rows of the audit are not touched (docs/decisions/privacy.md): whoever reads them sees a pseudonym.
"""

import re
from collections.abc import Collection, Iterable
from datetime import datetime

import structlog
from django.contrib.sessions.models import Session
from django.db import models, transaction
from django.db.models import Q

from runs.models import Attempt, ErasedPerson, Event, Invitation, PersonalExport, Run, RunCode, Sweep, Trial, User
from runs.models.privacy.people import pseudonym_of
from runs.privacy import tombstones
from runs.privacy.exporting import path_of
from runs.privacy.retention import forget
from runs.rights.audit.acts import Act, unrecorded
from runs.rights.audit.recording import OK, record

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
    row = ErasedPerson(number=user.pk, digest=tombstones.digest_of(user), runs=sorted(runs), at=now)
    tombstones.append(row)
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
    listed = {row.number: row for row in tombstones.read_list(tombstones.list_path())}
    stored = {row.number: row for row in ErasedPerson.objects.all()}
    for number in stored.keys() - listed.keys():
        tombstones.append(stored[number])
    return erase_again([*listed.values(), *(stored[number] for number in stored.keys() - listed.keys())])


def erase_again(rows: Iterable[ErasedPerson]) -> int:
    """Erase those of the rows' people who are here, and return how many they were. Whoever has the number of one and
    was made at another time is somebody else."""
    num_erased = 0
    for row in rows:
        user = User.objects.filter(pk=row.number).first()
        if user is not None and tombstones.digest_of(user) == row.digest:
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
    with unrecorded():
        _rename(user, pseudonym_of(user.pk))  # looks through all sentences: not while the transaction keeps others out
    with unrecorded(), transaction.atomic():
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
        forget(run)

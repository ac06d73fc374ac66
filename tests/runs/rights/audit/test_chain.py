"""The audit is a chain: a row that is changed, taken out, put in or added behind its back is named."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from runs.models import AuditEntry, AuditHead
from runs.models.security import AppendOnly
from runs.rights.audit.chain import append, remove_before, verify
from runs.rights.audit.facts import Act


def fill(number: int) -> None:
    for index in range(number):
        append(Act(actor="mate", action="runs.stop", object=f"run {index}", result="ok", after={"run": {"a": index}}))


def forge(statement: str, *values: object) -> None:
    """Write as somebody with the database would, who first takes the triggers away."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER IF EXISTS audit_no_update")
            cursor.execute("DROP TRIGGER IF EXISTS audit_no_delete")
        else:
            cursor.execute("ALTER TABLE runs_auditentry DISABLE TRIGGER audit_keep")
        cursor.execute(statement, values)


def test_a_chain_that_nobody_touched_is_intact(db: None) -> None:
    assert verify().fault is None
    fill(5)
    found = verify()
    assert (found.fault, found.num_rows, found.first, found.last) == (None, 5, 1, 5)


@pytest.mark.parametrize(
    ("statement", "sequence"),
    [
        ("UPDATE runs_auditentry SET actor = 'owner' WHERE sequence = 3", 3),
        ("UPDATE runs_auditentry SET after = '' WHERE sequence = 1", 1),
        ("DELETE FROM runs_auditentry WHERE sequence = 2", 2),
        ("DELETE FROM runs_auditentry WHERE sequence = 5", 5),
        ("DELETE FROM runs_auditentry WHERE sequence = 1", 1),
        ("DELETE FROM runs_audithead", 0),
        ("UPDATE runs_audithead SET cut_sequence = 2", 3),
    ],
)
def test_a_forgery_is_named(db: None, statement: str, sequence: int) -> None:
    fill(5)
    forge(statement)
    found = verify().fault
    assert found is not None
    assert found.sequence == sequence


def test_a_chain_that_was_written_anew_lacks_the_seal(db: None) -> None:
    fill(3)
    forge("DELETE FROM runs_auditentry WHERE sequence = 3")
    second = AuditEntry.objects.get(sequence=2)
    AuditHead.objects.update(sequence=2, hash=second.hash)
    found = verify().fault
    assert found is not None and "SECRET_KEY" in found.sentence


def test_a_row_behind_the_end_is_named(db: None) -> None:
    fill(2)
    forge(
        "INSERT INTO runs_auditentry (sequence, at, actor, token, address, action, object, project, before, after,"
        " result, repeats, previous_hash, hash) SELECT 3, at, actor, token, address, action, object, project, before,"
        " after, result, repeats, hash, hash FROM runs_auditentry WHERE sequence = 2"
    )
    found = verify().fault
    assert found is not None and found.sequence == 3


def test_rows_are_not_changed_by_our_own_code(db: None) -> None:
    fill(1)
    row = AuditEntry.objects.get()
    for change in (row.save, row.delete, AuditEntry.objects.all().delete, lambda: AuditEntry.objects.update(actor="x")):
        with pytest.raises(AppendOnly):
            change()


@pytest.mark.parametrize("statement", ["UPDATE runs_auditentry SET actor = 'x'", "DELETE FROM runs_auditentry"])
def test_the_database_refuses_to_change_rows(db: None, statement: str) -> None:
    fill(1)
    with pytest.raises(DatabaseError, match="not changed"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_what_is_left_after_old_rows_went_can_be_checked(db: None) -> None:
    fill(4)
    assert remove_before(timezone.now() + timedelta(seconds=1)) == 4
    fill(2)
    found = verify()
    assert (found.fault, found.first, found.num_rows) == (None, 5, 3)  # the cut itself is a row
    assert AuditEntry.objects.get(sequence=5).action == "audit.cut"


def test_writers_at_once_do_not_fork_the_chain(transactional_db: None) -> None:
    def write() -> None:
        try:
            fill(10)
        finally:
            connection.close()

    threads = [Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = verify()
    assert (found.fault, found.num_rows) == (None, 40)

"""The newest rows of the audit cannot be taken away with the database alone: a file outside of it names the last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from threading import Thread
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from runs.models import AuditEntry, AuditHead
from runs.rights.audit import anchor
from runs.rights.audit.chain import remove_before, verify
from tests.runs.rights.audit.test_chain import fill, forge

HEAD = ("sequence", "hash", "cut_sequence", "cut_hash", "seal")


@pytest.fixture(autouse=True)
def triggers(transactional_db: None) -> Iterator[None]:
    """The tests take the triggers of the table away, and no rollback brings them back."""
    with connection.cursor() as cursor:
        found: list[str] = []
        if connection.vendor == "sqlite":
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'runs_auditentry'")
            found = [sql for (sql,) in cursor.fetchall()]
    yield
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for sql in found:
                cursor.execute(sql.replace("CREATE TRIGGER", "CREATE TRIGGER IF NOT EXISTS", 1))
        else:
            cursor.execute("ALTER TABLE runs_auditentry ENABLE TRIGGER audit_keep")


def take_back_to(head: dict[str, Any]) -> None:
    """Remove the newest rows and put the head of back then in place, seal and all."""
    forge("DELETE FROM runs_auditentry WHERE sequence > %s", head["sequence"])
    AuditHead.objects.update(**head)


def head_of_now() -> dict[str, Any]:
    return AuditHead.objects.values(*HEAD).get()


def sentence() -> str:
    found = verify().fault
    return "" if found is None else found.sentence


def test_an_older_head_is_not_taken_for_the_newest() -> None:
    fill(3)
    older = head_of_now()
    fill(2)
    assert not sentence()
    take_back_to(older)
    assert sentence().startswith("Rows 4 to 5 are missing at the end")


def test_rows_that_come_later_do_not_hide_that_others_were_taken_away() -> None:
    fill(3)
    older = head_of_now()
    fill(2)
    take_back_to(older)
    fill(4)
    found = verify().fault
    assert found is not None and found.sequence == 5 and "not the one" in found.sentence


def test_all_rows_and_the_head_are_missed() -> None:
    fill(2)
    forge("DELETE FROM runs_auditentry")
    AuditHead.objects.all().delete()
    assert sentence().startswith("Rows 1 to 2 are missing at the end")


@pytest.mark.parametrize("forged", [{"cut_sequence": 3}, {"sequence": 4}])
def test_a_head_that_was_written_with_the_database_alone_is_not_sealed_by_the_next_row(forged: dict[str, int]) -> None:
    fill(5)
    anchor.forget()
    (number,) = forged.values()
    row = AuditEntry.objects.get(sequence=number)
    forge(f"DELETE FROM runs_auditentry WHERE sequence {'<=' if 'cut_sequence' in forged else '>'} %s", number)
    AuditHead.objects.update(**forged, **{"cut_hash" if "cut_sequence" in forged else "hash": row.hash})
    fill(1)
    assert "SECRET_KEY" in sentence()


def test_a_file_that_somebody_else_wrote_is_named() -> None:
    fill(2)
    path = anchor.path()
    path.write_text(path.read_text().replace("2 ", "1 ", 1))
    assert "was not written with this server's SECRET_KEY" in sentence()
    fill(1)
    assert sentence(), "the next row does not write over it"


def test_what_retention_removed_is_not_missed() -> None:
    fill(3)
    remembered = anchor.path().read_bytes()
    remove_before(timezone.now() + timedelta(seconds=1))
    fill(2)
    assert not sentence()
    anchor.path().write_bytes(remembered)  # as of a server that wrote nothing since
    assert not sentence()
    fill(1)
    assert not sentence() and anchor.read() == (7, AuditEntry.objects.get(sequence=7).hash)


def test_after_a_restore_the_server_says_once_that_the_older_chain_is_the_true_one() -> None:
    fill(3)
    older = head_of_now()
    fill(2)
    take_back_to(older)
    lost = anchor.read()
    with pytest.raises(CommandError, match="audit accept"):
        call_command("audit", "verify")
    call_command("audit", "accept", stdout=(out := StringIO()))
    assert "1 to 3" in out.getvalue() and not sentence()
    row = AuditEntry.objects.get(sequence=4)
    assert lost is not None and row.action == "audit.accept" and lost.hash in row.before
    fill(2)
    assert not sentence()


def test_a_chain_that_has_another_fault_is_not_accepted() -> None:
    fill(3)
    forge("UPDATE runs_auditentry SET actor = 'x' WHERE sequence = 2")
    with pytest.raises(CommandError, match="Row 2 was changed"):
        call_command("audit", "accept")


def test_writers_at_once_leave_the_last_row() -> None:
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
    found = anchor.read()
    assert found is not None and found.sequence == 40 and not sentence()


def test_a_file_that_cannot_be_written_keeps_no_row_from_the_audit(
    settings: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    settings.AUDIT_HEAD_FILE = str(tmp_path / "file" / "audit_head")
    fill(1)
    assert AuditEntry.objects.count() == 1 and "audit.head_not_kept" in caplog.text

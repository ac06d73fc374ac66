from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.ingest import troubles as letters
from runs.ingest.troubles import Letters
from runs.records.metrics.models import DeadLetter

pytestmark = pytest.mark.django_db(databases="__all__")


def test_a_letter_has_its_reason_its_size_and_the_beginning_of_its_data() -> None:
    data = b"x" * (letters.KEPT_BYTES + 1)
    assert Letters().write(memoryview(data), "why\0", run_id="r", producer="p", sequence=3)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.size, len(letter.data), letter.sequence) == ("why", len(data), letters.KEPT_BYTES, 3)


def test_what_may_come_again_is_kept_once() -> None:
    written = Letters()
    assert written.write(b"x", "why", run_id="r", may_come_again=True)
    assert not written.write(b"x", "why", run_id="r", may_come_again=True)
    assert written.write(b"y", "why", run_id="r", may_come_again=True)
    assert DeadLetter.objects.count() == 2


def test_a_flood_is_cut_off_until_the_next_tidying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "ROOM", 2)
    written = Letters()
    assert [written.write(b"%d" % number, "why") for number in range(4)] == [True, True, False, False]
    written.pruned()
    assert written.write(b"5", "why")


def test_old_ones_go_and_of_many_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "KEPT_PER_RUN", 2)
    monkeypatch.setattr(letters, "KEPT", 4)
    written = Letters()
    for number in range(3):
        written.write(b"%d" % number, "why", run_id="one")
    for number in range(3):
        written.write(b"%d" % number, "why", run_id="")
    written.write(b"old", "why", run_id="two")
    DeadLetter.objects.filter(run_id="two").update(at=timezone.now() - timedelta(days=letters.KEPT_DAYS + 1))
    letters.prune()
    found = [(letter.run_id, bytes(letter.data)) for letter in DeadLetter.objects.order_by("id")]
    assert found == [("one", b"2"), ("", b"0"), ("", b"1"), ("", b"2")]

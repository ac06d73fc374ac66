"""The ledger: what was deleted is known, whatever happens in between."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.disks import fill as fill_disk
from trainyard.contract.records import Begin, Damaged
from trainyard.spooling import ledger as ledger_module
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.reader import last_sequences
from trainyard.spooling.writer import SpoolWriter, spool_files

PRODUCER = "a" * 32


def fill(folder: Path) -> None:
    writer = SpoolWriter(folder, producer=PRODUCER, begin=Begin(), file_bytes=1000)
    for _ in range(4):
        writer.append(Damaged(why="y" * 1000))
    writer.close()


def test_a_deleted_file_is_remembered_by_whoever_comes_later(tmp_path: Path) -> None:
    fill(tmp_path)
    ledger = Ledger(tmp_path)
    assert (ledger.through(PRODUCER), ledger.offsets) == (0, {})
    ledger.delete(PRODUCER, 1, last=2, offsets={"0 stdout": 50})
    ledger.delete(PRODUCER, 2, last=3, offsets={"0 stdout": 40, "1 stderr": 7})
    again = Ledger(tmp_path)
    assert again.through(PRODUCER) == 3
    assert again.offsets == {"0 stdout": 50, "1 stderr": 7}
    assert spool_files(tmp_path)[PRODUCER][0] == 3


def test_a_producer_without_files_still_has_its_last_sequence(tmp_path: Path) -> None:
    fill(tmp_path)
    last = last_sequences(tmp_path)
    assert last == {PRODUCER: 6}
    ledger = Ledger(tmp_path)
    for number in spool_files(tmp_path)[PRODUCER]:
        ledger.delete(PRODUCER, number, last=last[PRODUCER], offsets={})
    assert spool_files(tmp_path) == {}
    assert last_sequences(tmp_path) == last


def test_the_ledger_is_on_the_disk_before_the_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    synced: list[str] = []
    real_fsync, real_unlink = os.fsync, Path.unlink

    def fsync(fd: int) -> None:
        real_fsync(fd)
        synced.append(os.path.realpath(f"/proc/self/fd/{fd}"))

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if "ledger" in path.name:  # the ledger itself is made anew
            return real_unlink(path, missing_ok)
        assert json.loads((tmp_path / "ledger.json").read_bytes())["through"] == {PRODUCER: 2}
        assert [Path(name).name for name in synced] == [
            f".ledger.json.{os.getpid()}.{threading.get_ident()}",
            tmp_path.name,
        ]
        real_unlink(path, missing_ok)
        raise KeyboardInterrupt  # as if killed right here

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        Ledger(tmp_path).delete(PRODUCER, 1, last=2, offsets={})
    monkeypatch.undo()
    assert Ledger(tmp_path).through(PRODUCER) == 2


def test_files_can_be_deleted_on_a_disk_that_is_full(small_disk: Path) -> None:
    fill(small_disk)
    ledger = Ledger(small_disk)
    ledger.delete(PRODUCER, 1, last=2, offsets={})  # from here on there is some room in reserve
    fill_disk(small_disk)
    with pytest.raises(OSError, match="No space"):
        (small_disk / "proof").write_bytes(bytes(4096))
    ledger.delete(PRODUCER, 2, last=3, offsets={})
    assert Ledger(small_disk).through(PRODUCER) == 3
    assert spool_files(small_disk)[PRODUCER][0] == 3


def test_the_reserve_is_there_again_after_each_deletion(tmp_path: Path) -> None:
    fill(tmp_path)
    Ledger(tmp_path).delete(PRODUCER, 1, last=2, offsets={})
    assert (tmp_path / ledger_module.SPARE).stat().st_size == ledger_module.SPARE_BYTES


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"through": {}}', '{"through": [], "offsets": 3}'])
def test_what_is_no_ledger_is_begun_anew(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    (tmp_path / "ledger.json").write_text(text)
    ledger = Ledger(tmp_path)
    assert ledger.producers() == {} and "is no ledger" in caplog.text
    ledger.delete(PRODUCER, 1, last=2, offsets={})
    assert Ledger(tmp_path).through(PRODUCER) == 2

"""A backup is taken while everything runs, and opens."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dashboard import backup, restore
from dashboard.up.checks import CannotStart
from tests.disks import disk_of_1_mb
from tests.up_process import Up


def make_home(home: Path) -> Path:
    for name in (backup.PRODUCT, backup.METRICS):
        with closing(sqlite3.connect(home / name)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE pair (a INTEGER, b INTEGER)")
            database.execute("INSERT INTO pair VALUES (0, 0)")
            database.commit()
    (home / "secret_key").write_text("key")
    (home / "sign_in.toml").write_text("[providers]")
    (home / "secrets.key").write_text("kept apart")
    (home / "runs" / "abc" / "output").mkdir(parents=True)
    (home / "runs" / "abc" / "output" / "model.safetensors").write_bytes(b"weights")
    (home / "runs" / "link").symlink_to("/etc/passwd")
    (home / "bundles").mkdir()
    (home / "checkpoints" / "abc" / "step-1.fence-1").mkdir(parents=True)
    (home / "checkpoints" / "abc" / "step-1.fence-1" / "manifest.json").write_text("{}")
    return home


def test_it_holds_databases_files_and_the_key(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    target = tmp_path / "all.tar.gz"
    assert backup.back_up(make_home(tmp_path / "home"), target) == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as archive:
        assert sorted(archive.getnames()) == [
            "backup.json", "checkpoints/abc/step-1.fence-1/manifest.json", "from_backup.json", "metrics.sqlite3",
            "runs/abc/output/model.safetensors",
            "secret_key", "sign_in.toml", "trainyard.sqlite3",
        ]  # fmt: skip


def test_a_copy_is_consistent_while_somebody_writes(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    home, is_over = make_home(tmp_path / "home"), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(home / backup.METRICS, timeout=30)) as database:
            number = 0
            while not is_over.is_set():
                number += 1
                database.execute("UPDATE pair SET a = ?", (number,))
                database.execute("UPDATE pair SET b = ?", (number,))
                database.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            backup.back_up(home, tmp_path / f"{number}.tar")
    finally:
        is_over.set()
        writer.join()
    for number in range(5):
        folder = tmp_path / str(number)
        with tarfile.open(tmp_path / f"{number}.tar") as archive:
            archive.extract(backup.METRICS, folder, filter="data")
        with closing(sqlite3.connect(folder / backup.METRICS)) as database:
            first, second = database.execute("SELECT a, b FROM pair").fetchone()
            assert first == second


def test_a_folder_that_is_no_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="is no home"):
        backup.back_up(tmp_path, tmp_path / "all.tar")
    assert list(tmp_path.iterdir()) == []


def test_an_address_in_a_file_counts_as_one_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the SQLite files of a home that has moved to PostgreSQL would be taken for its state."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("TRAINYARD_HOME", str(make_home(tmp_path / "home")))
    monkeypatch.setenv("DATABASE_URL", "")  # set again afterwards, whatever is read
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "url"))
    assert backup.main([str(tmp_path / "all.tar")]) == 1
    assert "DATABASE_URL_FILE is" in capsys.readouterr().err
    (tmp_path / "url").write_text("postgresql://nobody@127.0.0.1:1/none\n")
    assert backup.main([str(tmp_path / "all.tar")]) == 1
    assert "pg_dump" in capsys.readouterr().err and not (tmp_path / "all.tar").exists()


def test_a_check_finds_what_was_cut_off_or_changed_and_names_a_key_that_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    home, target = make_home(tmp_path / "home"), tmp_path / "all.tar"
    backup.back_up(home, target)
    assert json.loads((home / backup.LAST_BACKUP).read_text())["file"] == str(target)
    assert "is whole: 7 files, the database (SQLite) opens." in restore.check(target)
    data = target.read_bytes()
    at = data.index(b"weights")
    target.write_bytes(data[:at] + b"WEIGHTS" + data[at + 7 :])
    with pytest.raises(CannotStart, match="its content is not what was written"):
        restore.check(target)
    target.write_bytes(data[: data.rindex(b"backup.json")])
    with pytest.raises(CannotStart, match="was cut off"):
        restore.check(target)
    with pytest.raises(CannotStart, match="was cut off"):
        restore.unpack(target, tmp_path / "new")
    target.write_bytes(data[: at // 2])
    assert restore.main([str(target), "--check"]) == 1
    assert "all.tar is no good backup: " in capsys.readouterr().err
    (home / "secret_key").unlink()
    monkeypatch.setenv("SECRET_KEY", "elsewhere")
    monkeypatch.setenv("TRAINYARD_HOME", str(home))
    assert backup.main([str(target)]) == 0
    said = capsys.readouterr().out
    assert "Not in it, and needed to restore: SECRET_KEY and secrets.key." in said and "elsewhere." in said
    assert restore.check(target).endswith("SECRET_KEY is not in it: it was set in the environment.")


@pytest.mark.extended
def test_a_disk_that_is_full_leaves_no_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    home = make_home(tmp_path / "home")
    (home / "runs" / "abc" / "output" / "model.safetensors").write_bytes(bytes(2_000_000))
    monkeypatch.setenv("TRAINYARD_HOME", str(home))
    with disk_of_1_mb(tmp_path / "small") as small:
        (small / "before.tar").write_bytes(b"an older one")
        for name in ("all.tar", "before.tar"):
            assert backup.main([str(small / name)]) == 1
        assert capsys.readouterr().err.count("No backup was made: [Errno 28] No space left on device") == 2
        assert [(one.name, one.read_bytes()) for one in small.iterdir()] == [("before.tar", b"an older one")]
    assert not (home / backup.LAST_BACKUP).exists() and not list(home.glob(".backup-*"))


def test_it_is_taken_of_a_running_trainyard(running_trainyard: Up, tmp_path: Path) -> None:
    target = tmp_path / "live.tar"
    environment = {"PATH": "/usr/bin:/bin", "TRAINYARD_HOME": str(running_trainyard.home)}
    command = [sys.executable, "-m", "dashboard.backup", str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(target) as archive:
        archive.extract(backup.PRODUCT, tmp_path, filter="data")
    with closing(sqlite3.connect(tmp_path / backup.PRODUCT)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        own = "SELECT count(*) FROM runs_node WHERE name LIKE 'local-%'"  # other tests let others join
        assert database.execute(own).fetchone() == (2,)

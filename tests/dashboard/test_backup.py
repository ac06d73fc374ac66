"""A backup is taken while everything runs, and opens."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dashboard import backup
from dashboard.up.checks import CannotStart
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
            "checkpoints/abc/step-1.fence-1/manifest.json", "from_backup.json", "metrics.sqlite3",
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


def test_postgresql_is_left_to_its_own_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/train")
    with pytest.raises(CannotStart, match="pg_dump"):
        backup.back_up(tmp_path, tmp_path / "all.tar")


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

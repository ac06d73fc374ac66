"""A backup on PostgreSQL: taken while somebody writes, checked, and restored into an empty database alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from dashboard import postgres
from dashboard.home import LAST_BACKUP
from dashboard.up.checks import CannotStart
from tests.dashboard.postgres_home import MAKE, NAMES, environment, new_database, running, said
from tests.disks import disk_of_1_mb, fill
from tests.servers import PostgreSQL
from tests.up_process import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.postgres]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def home(server: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("pg") / "home"
    code, words = said(home, server.url, "-c", MAKE)
    assert code == 0, words
    (home / "runs" / "abc").mkdir()
    (home / "runs" / "abc" / "model.safetensors").write_bytes(b"weights")
    return home


def test_it_is_whole_while_somebody_writes_and_serves_elsewhere(server: PostgreSQL, home: Path, tmp_path: Path) -> None:
    is_over = threading.Event()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE pair_a (n int)")
        connection.execute("CREATE TABLE pair_b (n int)")

        def write() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                with connection.transaction():
                    connection.execute("INSERT INTO pair_a VALUES (%s)", (number,))
                    connection.execute("INSERT INTO pair_b VALUES (%s)", (number,))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            code, words = said(home, server.url, "-m", "dashboard.backup", str(tmp_path))
        finally:
            is_over.set()
            writer.join()
            connection.execute("ALTER TABLE pair_a RENAME TO kept_a")
    assert code == 0 and "secrets.key" in words and server.password not in words, words
    (archive,) = tmp_path.glob("trainyard-*.tar.gz")
    assert str(archive) in words and not list(home.glob(".backup-*"))
    code, words = said(tmp_path / "none", "", "-m", "dashboard.restore", "--check", str(archive))
    assert code == 0 and "is whole: " in words and "(PostgreSQL) opens" in words, words
    assert not (tmp_path / "none").exists(), "a check touches nothing"

    new, url = tmp_path / "new", new_database(server, "elsewhere")
    restore = ("-m", "dashboard.restore", str(archive), "--without-erasures")
    code, words = said(new, url, *restore)
    assert code == 0 and "Secrets do not open: " in words and "secrets.key is not there" in words, words
    shutil.copy(home / "secrets.key", new / "secrets.key")
    code, words = said(new, url, "-c", NAMES)
    assert (code, words.strip()) == (0, "['owner'] of a hub"), "and the sequences go on"
    assert (new / "runs" / "abc" / "model.safetensors").read_bytes() == b"weights"
    assert not (new / "postgresql.dump").exists()
    with psycopg.connect(url) as connection:
        first, second = (connection.execute(f"SELECT count(*), max(n) FROM pair_{x}").fetchone() for x in "ab")
    assert first == second and first is not None and first[0] > 0

    code, words = said(tmp_path / "third", url, *restore)
    assert code == 1 and "tables: make an empty one (createdb)" in words and not list((tmp_path / "third").iterdir())
    code, words = said(
        new, new_database(server, "empty"), "-m", "dashboard.restore", str(archive), "--without-erasures"
    )
    assert code == 1 and "is not empty" in words
    code, words = said(tmp_path / "sqlite", "", *restore)
    assert code == 1 and "set DATABASE_URL to an empty database" in words


def test_no_password_is_among_the_words_of_a_process(server: PostgreSQL, home: Path, tmp_path: Path) -> None:
    with psycopg.connect(server.url) as connection:  # pg_dump waits for us
        connection.execute("LOCK TABLE runs_user IN ACCESS EXCLUSIVE MODE")
        words = [sys.executable, "-m", "dashboard.backup", str(tmp_path / "all.tar")]
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment(home, server.url), stderr=subprocess.PIPE, text=True
        )
        try:
            seen = list[str]()
            deadline = time.monotonic() + 60
            while not any("pg_dump" in one for one in seen):
                assert time.monotonic() < deadline and process.poll() is None
                children = psutil.Process(process.pid).children(recursive=True)
                seen = [" ".join(child.cmdline()) for child in children if child.is_running()]
            assert not any(server.password in one for one in seen)
            for child in children:
                child.terminate()
            _, said_last = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 1 and said_last.startswith("No backup was made: pg_dump ended with")
    assert list(tmp_path.iterdir()) == [] and not list(home.glob(".backup-*"))


def test_a_database_that_is_away_and_programs_that_are_missing_are_named(
    server: PostgreSQL, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = server.url.replace(str(server.port), "1")
    code, words = said(home, nobody, "-m", "dashboard.backup", str(tmp_path / "all.tar"))
    assert code == 1 and words.startswith("No backup was made: pg_dump ended with 1: ") and "refused" in words
    with pytest.raises(CannotStart, match="cannot be reached"):
        postgres.refuse_tables(nobody)
    with pytest.raises(CannotStart, match=r"is no address of PostgreSQL, such as [^!]*$"):
        postgres.run("mysql://me:hidden!@db/train", "pg_dump")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "find_postgres_folder", lambda: None)
    with pytest.raises(CannotStart, match="pg_dump is not on this machine"):
        postgres.run(server.url, "pg_dump")


def test_a_disk_that_is_full_while_the_database_is_copied_leaves_no_half_of_one(
    server: PostgreSQL, home: Path, tmp_path: Path
) -> None:
    """pg_dump writes into the home: there it ends first."""
    with disk_of_1_mb(tmp_path / "small") as small:
        shutil.copytree(home, small / "home", ignore=shutil.ignore_patterns(LAST_BACKUP))
        fill(small)
        code, words = said(small / "home", server.url, "-m", "dashboard.backup", str(tmp_path / "all.tar"))
        assert code == 1 and words.startswith("No backup was made: ") and "No space left on device" in words, words
        assert not list((small / "home").glob(".backup-*")) and not (small / "home" / LAST_BACKUP).exists()
    assert [one.name for one in tmp_path.iterdir()] == ["small"]

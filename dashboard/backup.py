"""`python -m dashboard.backup FILE`: one tar of everything that counts in this home, taken while it runs.

The database of the product is copied before the files and the metrics: what is read later may know more (points of a
run that had just begun), never less (a run that ended, without its last points).
"""

import argparse
import contextlib
import io
import json
import os
import sqlite3
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from dashboard.home import RESTORE_MARKER, home_path
from dashboard.up.checks import CannotStart

PRODUCT, METRICS = "trainyard.sqlite3", "metrics.sqlite3"
ERASURES = "erasures.jsonl"
# A checkpoint that is deleted meanwhile is incomplete; its checksums show that.
FOLDERS = ("runs", "bundles", "checkpoints", "tls")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.backup", description="Copy this home into one file.")
    parser.add_argument("file", type=Path, help="where to write it; a name that ends in .gz is compressed")
    options = parser.parse_args(arguments)
    try:
        size = back_up(home_path(), options.file)
    except (CannotStart, OSError, sqlite3.Error) as error:
        print(f"No backup was made: {error}", file=sys.stderr)
        return 1
    print(
        f"{options.file} ({size / 1e6:.1f} MB). To restore: trainyard restore {options.file}, with TRAINYARD_HOME set"
        " to an empty folder, and with the newest list of erased people."
    )
    return 0


def back_up(home: Path, target: Path) -> int:
    """Write the backup and return its size in bytes. ``target`` appears only when all of it is on the disk."""
    if os.environ.get("DATABASE_URL"):
        raise CannotStart("the database is PostgreSQL: copy it with pg_dump; runs/, bundles/, secret_key as files.")
    if not (home / PRODUCT).exists():
        raise CannotStart(f"{home} is no home of Trainyard.")
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open_private(beside) as archive, tempfile.TemporaryDirectory(dir=home, prefix=".backup-") as folder:
            add_database(archive, home / PRODUCT, Path(folder))
            if (home / "secret_key").exists():
                archive.add(home / "secret_key", arcname="secret_key")
            add_text(archive, RESTORE_MARKER, json.dumps({"made_at": datetime.now(UTC).isoformat()}))
            add_file(archive, erasures_path(home), ERASURES)
            for name in FOLDERS:
                add_folder(archive, home, home / name)
            add_database(archive, home / METRICS, Path(folder))
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        size = beside.stat().st_size
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return size


def open_private(path: Path) -> tarfile.TarFile:
    """Open a new archive that only its owner reads: it holds the key of the site."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return tarfile.open(path, "w:gz" if ".gz." in path.name else "w")


def add_database(archive: tarfile.TarFile, path: Path, folder: Path) -> None:
    """Add a copy that is consistent whoever writes meanwhile: SQLite's own backup, not a copy of the file."""
    copy = folder / path.name
    uri = f"{path.resolve().as_uri()}?mode=rw"  # not "ro": a WAL that nobody has open is read by making its index
    with closing(sqlite3.connect(uri, uri=True, timeout=30)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    archive.add(copy, arcname=path.name)
    copy.unlink()


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(text.encode()), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(text.encode()))


def add_file(archive: tarfile.TarFile, path: Path, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        archive.add(path, arcname=name, recursive=False)


def erasures_path(home: Path) -> Path:
    """Return the list of people who were erased: beside everything else, or where the settings say."""
    return Path(os.environ.get("ERASURES_FILE") or home / ERASURES)


def add_folder(archive: tarfile.TarFile, home: Path, folder: Path) -> None:
    """Add the files below ``folder``. One that goes away meanwhile is left out: its run was deleted."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            add_file(archive, path, str(path.relative_to(home)))


if __name__ == "__main__":
    sys.exit(main())

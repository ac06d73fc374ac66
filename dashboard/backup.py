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
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

from dashboard.encrypted_backup import EncryptedWriter, Opener
from dashboard.home import RESTORE_MARKER, home_path
from dashboard.up.checks import CannotStart

PRODUCT, METRICS = "trainyard.sqlite3", "metrics.sqlite3"
ERASURES = "erasures.jsonl"
NOBODY = Opener()
# A checkpoint that is deleted meanwhile is incomplete; its checksums show that.
FOLDERS = ("runs", "bundles", "checkpoints", "tls")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.backup", description="Copy this home into one file.")
    parser.add_argument("file", type=Path, help="where to write it; a name that ends in .gz is compressed")
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument("--passphrase-file", type=Path, metavar="FILE", help="encrypt it with the passphrase in a file")
    whom.add_argument("--encrypt-to", type=Path, metavar="FILE", help="encrypt it to a public key (X25519, PEM)")
    options = parser.parse_args(arguments)
    try:
        size = back_up(home_path(), options.file, Opener(options.passphrase_file, options.encrypt_to))
    except (CannotStart, OSError, sqlite3.Error) as error:
        print(f"No backup was made: {error}", file=sys.stderr)
        return 1
    opens_with = " --passphrase-file FILE" if options.passphrase_file else " --key FILE" if options.encrypt_to else ""
    how = f"trainyard restore {options.file}{opens_with}, with TRAINYARD_HOME set to an empty folder,"
    print(f"{options.file} ({size / 1e6:.1f} MB). To restore: {how} and with the newest list of erased people.")
    return 0


def back_up(home: Path, target: Path, opener: Opener = NOBODY) -> int:
    """Write the backup, encrypted where ``opener`` names a file, and return its size in bytes. ``target`` appears only
    when all of it is on the disk."""
    if os.environ.get("DATABASE_URL"):
        raise CannotStart("the database is PostgreSQL: copy it with pg_dump; runs/, bundles/, secret_key as files.")
    if not (home / PRODUCT).exists():
        raise CannotStart(f"{home} is no home of Trainyard.")
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with (
            open_private(beside, opener) as archive,
            tempfile.TemporaryDirectory(dir=home, prefix=".backup-") as folder,
        ):
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


@contextlib.contextmanager
def open_private(path: Path, opener: Opener) -> Iterator[tarfile.TarFile]:
    """Open a new archive that only its owner reads: it holds the key of the site."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        writer = EncryptedWriter(file, opener) if opener != NOBODY else None
        target = cast(BinaryIO, writer or file)  # of a stream tarfile asks for write() alone
        with tarfile.open(fileobj=target, mode="w|gz" if ".gz." in path.name else "w|") as archive:
            yield archive
        if writer is not None:
            writer.finish()


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

"""`python -m dashboard.restore FILE --erasures LIST`: make a home of a backup, without people who were erased since.

The list (``erasures.jsonl`` of the home that goes on, or `trainyard manage erasures list`) is newer than the backup.
Until it was applied, `up` refuses to serve a home that came from a backup. With ``--check`` a backup is read to its
end, and its databases are tried; nothing is restored.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

from dashboard import backup, backup_store, postgres
from dashboard.backup import NOBODY, DecryptedReader, Opener, erasures_path
from dashboard.home import RESTORE_MARKER, home_path
from dashboard.up.checks import CannotStart, read_secrets
from dashboard.up.database import erase_again, open_database, set_up_django
from trainyard.at_rest.chunks import CannotDecrypt
from trainyard.spooling.plain_files import write_private

KEPT = {backup.PRODUCT, backup.METRICS, backup.POSTGRESQL, backup.END, RESTORE_MARKER}  # of a check
CUT_OFF = "the backup was cut off: its last member is missing."
OTHER_KEY = (
    "SECRET_KEY is not the one of the backup. Set that one before you serve; if it is lost, people sign in anew, and"
    " the audit is taken over with `trainyard manage audit accept`."
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trainyard restore", description="Make a home of a backup.")
    words = "the backup, or s3://bucket/name; without one this home was unpacked by hand"
    parser.add_argument("file", nargs="?", help=words)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--erasures", type=Path, metavar="LIST", help="the newest list of people who were erased")
    which.add_argument(
        "--without-erasures", action="store_true", help="there is no newer list than the backup's own: it is lost"
    )
    which.add_argument("--check", action="store_true", help="only say whether the backup is whole and opens")
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="the passphrase of an encrypted backup")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the private key of a backup that is encrypted to one")
    options = parser.parse_args(arguments)
    opener = Opener(options.passphrase_file, options.key)
    if options.check and options.file is None:
        parser.error("--check needs the backup's FILE")
    try:
        read_secrets()
        if options.check:
            print(check(options.file, opener))
            return 0
        num_erased = restore(home_path(), options.file, options.erasures, opener)
    except CannotDecrypt as error:
        print(f"{options.file} does not open with this passphrase or key, or was changed: {error}.", file=sys.stderr)
        return 1
    except (CannotStart, OSError, EOFError, tarfile.TarError, sqlite3.Error) as error:
        what = f"{options.file} is no good backup" if options.check else "Nothing may be served from here yet"
        print(f"{what}: {error}", file=sys.stderr)
        return 1
    print(f"Restored to {home_path()}. {num_erased} erased {'person was' if num_erased == 1 else 'people were'} in it.")
    return 0


def restore(home: Path, archive: Path | str | None, erasures: Path | None, opener: Opener = NOBODY) -> int:
    """Unpack into an empty home, add the list to the backup's own, and erase whom it names. Returns how many there
    were."""
    if archive is not None:
        unpack(archive, home, opener)
    elif not (home / RESTORE_MARKER).exists():
        raise CannotStart(f"{home} did not come from a backup; name the file.")
    dump = home / backup.POSTGRESQL
    if dump.exists():
        words = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", str(dump))
        postgres.run(os.environ.get("DATABASE_URL", ""), "pg_restore", *words)
        dump.unlink()
    if erasures is not None:
        add_list(erasures, erasures_path(home))
    made_with = json.loads((home / RESTORE_MARKER).read_text()).get("secret_key")
    if made_with and made_with != backup.fingerprint(home):
        print(OTHER_KEY, file=sys.stderr)
    set_up_django()
    open_database(is_restored=True)
    num_erased = erase_again()
    from runs.rights.secrets.store import what_does_not_open

    if sentence := what_does_not_open():
        print(sentence, file=sys.stderr)
    (home / RESTORE_MARKER).unlink(missing_ok=True)
    return num_erased


@contextlib.contextmanager
def opened(archive: Path | str, opener: Opener) -> Iterator[tarfile.TarFile]:
    with backup_store.opened(str(archive)) as file:
        reader = DecryptedReader(file, opener) if file.peek().startswith(backup.MAGIC) else file
        with tarfile.open(fileobj=cast(BinaryIO, reader), mode="r|*") as tar:
            yield tar


def unpack(archive: Path | str, home: Path, opener: Opener = NOBODY) -> None:
    """Unpack what `backup` writes: plain files, none of them outside of the home."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise CannotStart(f"{home} is not empty. Set TRAINYARD_HOME to an empty folder.")
    with opened(archive, opener) as tar:
        first, url = getattr(tar, "firstmember", None), os.environ.get("DATABASE_URL", "")
        if first is not None and first.name == backup.POSTGRESQL:
            if not url:
                raise CannotStart("the backup is of PostgreSQL: set DATABASE_URL to an empty database.")
            postgres.refuse_tables(url)
        elif url:
            raise CannotStart(
                "the backup is of SQLite: restore it without DATABASE_URL, then `trainyard to-postgresql`."
            )
        try:
            for member in tar:
                _extract(tar, member, home)
        except OSError as error:  # such as a full disk
            raise CannotStart(f"{error}. Empty {home} before you try again.") from error
    marker, end = home / RESTORE_MARKER, home / backup.END
    if not marker.exists():  # of a version that wrote none
        write_private(marker, "{}")
    if json.loads(marker.read_text()).get("has_end") and not end.exists():
        raise CannotStart(f"{CUT_OFF} Empty {home} before you try again.")
    end.unlink(missing_ok=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, home: Path) -> None:
    """Write one file, or one more name of a file, into the home. tarfile's own filters came with Python 3.11.4, and
    Debian 12 has 3.11.2."""
    for name in [member.name, member.linkname] if member.islnk() else [member.name]:
        if not (member.isreg() or member.islnk()) or name.startswith("/") or ".." in name.split("/"):
            raise CannotStart(
                f"the backup has {name!r}, which is no file of a home. Empty {home} before you try again."
            )
    target = home / member.name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if member.islnk():
        target.hardlink_to(home / member.linkname)
        return
    with target.open("xb") as file:
        shutil.copyfileobj(cast(BinaryIO, tar.extractfile(member)), file)
    target.chmod(member.mode & 0o755 | 0o600)
    os.utime(target, (member.mtime, member.mtime))


def check(archive: Path | str, opener: Opener = NOBODY) -> str:
    """Read the backup to its end and try its databases, in a folder for temporary files. Returns a sentence; raises
    what `main` says."""
    digest, names = hashlib.sha256(), list[str]()
    with opened(archive, opener) as tar, tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder:
        for member in tar:
            names.append(member.name)
            is_end, is_kept = member.name == backup.END, member.name in KEPT
            if not is_end:
                digest.update(f"{member.name}\0".encode(errors="surrogateescape"))
            if member.isreg():
                source = backup.HashedFile(
                    cast(BinaryIO, tar.extractfile(member)), hashlib.sha256() if is_end else digest
                )
                with (Path(folder, member.name) if is_kept else Path(os.devnull)).open("wb") as target:
                    shutil.copyfileobj(cast(BinaryIO, source), target)
        if backup.END not in names:
            raise CannotStart(CUT_OFF)
        about, end = (json.loads(Path(folder, name).read_text()) for name in (RESTORE_MARKER, backup.END))
        if end["sha256"] != digest.hexdigest():
            raise CannotStart("it was changed: its content is not what was written.")
        for name in {backup.PRODUCT, backup.METRICS} & set(names):
            with closing(sqlite3.connect(Path(folder, name))) as database:
                if (found := database.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
                    raise CannotStart(f"{name} is damaged: {found}")
        if backup.POSTGRESQL in names:
            postgres.run("", "pg_restore", f"--file={os.devnull}", str(Path(folder, backup.POSTGRESQL)))
    kind = "PostgreSQL" if backup.POSTGRESQL in names else "SQLite"
    key = "" if "secret_key" in names else " SECRET_KEY is not in it: it was set in the environment."
    return f"{archive} of {about['made_at']} is whole: {len(names) - 1} files, the database ({kind}) opens.{key}"


def add_list(newer: Path, own: Path) -> None:
    """Add the lines of the newer list that are not in the home's own."""
    try:
        lines = own.read_text().splitlines()
    except FileNotFoundError:
        lines = []
    more = [line for line in newer.read_text().splitlines() if line not in lines]
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(own, "".join(f"{line}\n" for line in [*lines, *more]))


if __name__ == "__main__":
    sys.exit(main())

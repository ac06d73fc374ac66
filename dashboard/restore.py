"""`python -m dashboard.restore FILE --erasures LIST`: make a home of a backup, without people who were erased since.

The list (``erasures.jsonl`` of the home that goes on, or `trainyard manage erasures list`) is newer than the backup.
Until it was applied, `up` refuses to serve a home that came from a backup.
"""

import argparse
import sqlite3
import sys
import tarfile
from pathlib import Path
from typing import BinaryIO, cast

from dashboard.backup import NOBODY, DecryptedReader, Opener, erasures_path, is_encrypted
from dashboard.home import RESTORE_MARKER, home_path
from dashboard.up.checks import CannotStart
from dashboard.up.database import erase_again, open_database, set_up_django
from trainyard.at_rest.chunks import CannotDecrypt
from trainyard.spooling.plain_files import write_private


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.restore", description="Make a home of a backup.")
    parser.add_argument("file", type=Path, nargs="?", help="the backup; without one this home was unpacked by hand")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--erasures", type=Path, metavar="LIST", help="the newest list of people who were erased")
    which.add_argument(
        "--without-erasures", action="store_true", help="there is no newer list than the backup's own: it is lost"
    )
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="the passphrase of an encrypted backup")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the private key of a backup that is encrypted to one")
    options = parser.parse_args(arguments)
    opener = Opener(options.passphrase_file, options.key)
    try:
        num_erased = restore(home_path(), options.file, options.erasures, opener)
    except CannotDecrypt as error:
        print(f"{options.file} does not open with this passphrase or key, or was changed: {error}.", file=sys.stderr)
        return 1
    except (CannotStart, OSError, tarfile.TarError, sqlite3.Error) as error:
        print(f"Nothing may be served from here yet: {error}", file=sys.stderr)
        return 1
    print(f"Restored to {home_path()}. {num_erased} erased {'person was' if num_erased == 1 else 'people were'} in it.")
    return 0


def restore(home: Path, archive: Path | None, erasures: Path | None, opener: Opener = NOBODY) -> int:
    """Unpack into an empty home, add the list to the backup's own, and erase whom it names. Returns how many there
    were."""
    if archive is not None:
        unpack(archive, home, opener)
    elif not (home / RESTORE_MARKER).exists():
        raise CannotStart(f"{home} did not come from a backup; name the file.")
    if erasures is not None:
        add_list(erasures, erasures_path(home))
    set_up_django()
    open_database(is_restored=True)
    num_erased = erase_again()
    (home / RESTORE_MARKER).unlink(missing_ok=True)
    return num_erased


def unpack(archive: Path, home: Path, opener: Opener = NOBODY) -> None:
    """Unpack what `backup` writes: plain files, none of them outside of the home."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(home.iterdir()):
        raise CannotStart(f"{home} is not empty. Set TRAINYARD_HOME to an empty folder.")
    with archive.open("rb") as file:
        reader = DecryptedReader(file, opener) if is_encrypted(file) else file
        with tarfile.open(fileobj=cast(BinaryIO, reader), mode="r|*") as opened:
            opened.extractall(home, filter="data")
    if not (home / RESTORE_MARKER).exists():  # of a version that wrote none
        write_private(home / RESTORE_MARKER, "{}")


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

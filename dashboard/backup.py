"""`python -m dashboard.backup FILE`: one tar of everything that counts in this home, taken while it runs.

The database of the product is copied before the files and the metrics: what is read later may know more (points of a
run that had just begun), never less (a run that ended, without its last points). PostgreSQL, which has both, is copied
by pg_dump. The last member has the digest of those before it: a file that was cut off has none.

It may be encrypted before it reaches a disk: with a passphrase, or to a public key whose other half is away. Such a
file: magic (8 bytes), how its key is made (1), 32 bytes for that, then an encrypted file as ``trainyard.at_rest`` has
them, bound to these. The key follows from a passphrase by scrypt (RFC 7914), where the bytes are its salt; or, as in
ECIES, by HKDF from an X25519 exchange (RFC 7748), where they are the public half of a key that was made for this file.
"""

import argparse
import contextlib
import hashlib
import hmac
import io
import json
import os
import sqlite3
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from dashboard import postgres
from dashboard.backup_store import SCHEME, written
from dashboard.home import LAST_BACKUP, RESTORE_MARKER, home_path
from dashboard.up.checks import CannotStart, read_secrets
from trainyard.at_rest.chunks import CHUNK_BYTES, DecryptedFile, Encryptor
from trainyard.at_rest.keyring import KEY_BYTES, Keyring
from trainyard.spooling.plain_files import write_private

MAGIC = b"\x89TYBAK1\n"
ENVELOPE = struct.Struct("<8sB32s")
CONTEXT = "backup|"
PASSPHRASE, PUBLIC_KEY = 1, 2
MIN_PASSPHRASE = 12  # bytes
MAKE_KEY = "openssl genpkey -algorithm X25519 -out backup.key; openssl pkey -in backup.key -pubout -out backup.pub"


class Opener(NamedTuple):
    """Files that a backup is encrypted to or opened with: of a passphrase, or of half a key. At most one is named."""

    passphrase: Path | None = None
    key: Path | None = None


class EncryptedWriter:
    """Writes what it is given encrypted into ``file``; ``finish`` writes the end, without which it does not open."""

    def __init__(self, file: BinaryIO, opener: Opener) -> None:
        kind, of_key, key = _new_key(opener)
        envelope = ENVELOPE.pack(MAGIC, kind, of_key)
        self._encryptor = Encryptor(Keyring(1, {1: key}), CONTEXT + envelope.hex())
        self._file, self._waiting = file, bytearray()
        file.write(envelope + self._encryptor.header)

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > CHUNK_BYTES:
            self._file.write(self._encryptor.chunk(bytes(self._waiting[:CHUNK_BYTES]), is_last=False))
            del self._waiting[:CHUNK_BYTES]
        return len(data)

    def finish(self) -> None:
        self._file.write(self._encryptor.chunk(bytes(self._waiting), is_last=True))


class DecryptedReader:
    """Reads a backup that is open, from its beginning."""

    def __init__(self, file: BinaryIO, opener: Opener) -> None:
        """Raises CannotStart without what opens it, and CannotDecrypt."""
        envelope = file.read(ENVELOPE.size)
        if len(envelope) < ENVELOPE.size:
            raise CannotStart("the backup was cut off.")
        _, kind, of_key = ENVELOPE.unpack(envelope)
        self._opened = DecryptedFile(file, Keyring(1, {1: _key_of(kind, of_key, opener)}), CONTEXT + envelope.hex())
        self._at = 0

    def read(self, size: int) -> bytes:
        data = self._opened.read(self._at, size)
        self._at += len(data)
        return data


def _new_key(opener: Opener) -> tuple[int, bytes, bytes]:
    """Return how the key is made, the bytes for that, and the key."""
    if opener.passphrase is not None:
        salt = os.urandom(32)
        return PASSPHRASE, salt, _from_passphrase(opener.passphrase, salt)
    assert opener.key is not None
    theirs: Any = None
    with contextlib.suppress(ValueError):
        theirs = load_pem_public_key(opener.key.read_bytes())
    if not isinstance(theirs, X25519PublicKey):
        raise CannotStart(f"{opener.key} is no public key of X25519 in PEM. Make one with: {MAKE_KEY}")
    ours = X25519PrivateKey.generate()
    public = ours.public_key().public_bytes_raw()
    return PUBLIC_KEY, public, _from_exchange(ours, theirs, public, theirs.public_bytes_raw())


def _key_of(kind: int, of_key: bytes, opener: Opener) -> bytes:
    if kind == PASSPHRASE:
        if opener.passphrase is None:
            raise CannotStart("the backup is encrypted with a passphrase: name its file with --passphrase-file.")
        return _from_passphrase(opener.passphrase, of_key)
    if kind != PUBLIC_KEY:
        raise CannotStart("the backup is of a newer version.")
    if opener.key is None:
        raise CannotStart("the backup is encrypted to a public key: name the private key's file with --key.")
    ours: Any = None
    with contextlib.suppress(ValueError, TypeError):
        ours = load_pem_private_key(opener.key.read_bytes(), None)
    if not isinstance(ours, X25519PrivateKey):
        raise CannotStart(f"{opener.key} is no private key of X25519 in PEM without a password.")
    return _from_exchange(ours, X25519PublicKey.from_public_bytes(of_key), of_key, ours.public_key().public_bytes_raw())


def _from_passphrase(path: Path, salt: bytes) -> bytes:
    passphrase = path.read_bytes().rstrip(b"\r\n")
    if len(passphrase) < MIN_PASSPHRASE:
        raise CannotStart(f"a passphrase has at least {MIN_PASSPHRASE} bytes; {path} has {len(passphrase)}.")
    return Scrypt(salt=salt, length=KEY_BYTES, n=2**17, r=8, p=1).derive(passphrase)


def _from_exchange(ours: X25519PrivateKey, theirs: X25519PublicKey, of_file: bytes, of_person: bytes) -> bytes:
    kdf = HKDF(SHA256(), KEY_BYTES, salt=of_file + of_person, info=b"trainyard backup")
    return kdf.derive(ours.exchange(theirs))


PRODUCT, METRICS, POSTGRESQL = "trainyard.sqlite3", "metrics.sqlite3", "postgresql.dump"
ERASURES = "erasures.jsonl"
END = "backup.json"  # the last member
NOBODY = Opener()
# A checkpoint that is deleted meanwhile is incomplete; its checksums show that.
FOLDERS = ("runs", "bundles", "checkpoints", "tls")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trainyard backup", description="Copy all state into one file.")
    words = (
        "where to write it, or s3://bucket/name: a name that ends in .gz is compressed; in a folder, or after a last /,"
        " it is named by the time"
    )
    parser.add_argument("file", help=words)
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument("--passphrase-file", type=Path, metavar="FILE", help="encrypt it with the passphrase in a file")
    whom.add_argument("--encrypt-to", type=Path, metavar="FILE", help="encrypt it to a public key (X25519, PEM)")
    options = parser.parse_args(arguments)
    target = options.file
    if target.endswith("/") or Path(target).is_dir():
        target = f"{target.rstrip('/')}/trainyard-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz"
    try:
        read_secrets()
        size = back_up(home_path(), target, Opener(options.passphrase_file, options.encrypt_to))
    except (CannotStart, OSError, sqlite3.Error) as error:
        print(f"No backup was made: {error}", file=sys.stderr)
        return 1
    opens_with = " --passphrase-file FILE" if options.passphrase_file else " --key FILE" if options.encrypt_to else ""
    where = "TRAINYARD_HOME set to an empty folder" + " and DATABASE_URL to an empty database" * bool(_url())
    print(f"{target} ({size / 1e6:.1f} MB). To restore: trainyard restore {target}{opens_with}, with {where},")
    print("and with the newest list of erased people.")
    apart = [name for name in ("SECRET_KEY", "TRAINYARD_SECRETS_KEY") if os.environ.get(name)]
    apart += ["secrets.key"] if (home_path() / "secrets.key").exists() else []
    if apart:
        print(f"Not in it, and needed to restore: {' and '.join(apart)}. Keep a copy of each elsewhere.")
    return 0


def back_up(home: Path, target: Path | str, opener: Opener = NOBODY) -> int:
    """Write the backup, encrypted where ``opener`` names a file, and return its size in bytes. ``target``, a path or
    the address of an object, appears only when all of it is on the disk or in the store."""
    if not (home / ("runs" if _url() else PRODUCT)).exists():
        raise CannotStart(f"{home} is no home of Trainyard.")
    where = str(target) if str(target).startswith(SCHEME) else str(Path(target).resolve())
    now = datetime.now(UTC).isoformat()
    about = {"made_at": now, "secret_key": fingerprint(home), "has_end": True}
    with written(where) as file, tempfile.TemporaryDirectory(dir=home, prefix=".backup-") as folder:
        with open_archive(file, opener, is_compressed=where.endswith(".gz")) as archive:
            add_database(archive, home / PRODUCT, Path(folder))
            for name in ("secret_key", "sign_in.toml"):
                add_file(archive, home / name, name)
            add_text(archive, RESTORE_MARKER, json.dumps(about))
            add_file(archive, erasures_path(home), ERASURES)
            for path in (path for name in FOLDERS for path in sorted((home / name).rglob("*"))):
                if path.is_file() and not path.is_symlink():
                    add_file(archive, path, str(path.relative_to(home)))
            if not _url():
                add_database(archive, home / METRICS, Path(folder))
            add_text(archive, END, json.dumps({"sha256": archive.__dict__["digest"].hexdigest()}))
        size = file.tell()
    with contextlib.suppress(OSError):  # the backup is there; a full disk of the home takes nothing from it
        write_private(home / LAST_BACKUP, json.dumps({"at": now, "file": where, "bytes": size}))
    return size


def _url() -> str:
    return os.environ.get("DATABASE_URL", "")


def fingerprint(home: Path) -> str:
    """Return what tells this SECRET_KEY from another one; empty where there is none."""
    with contextlib.suppress(FileNotFoundError):
        key = os.environ.get("SECRET_KEY") or (home / "secret_key").read_text()
        return hmac.new(key.encode(), b"trainyard backup", hashlib.sha256).hexdigest()[:16]
    return ""


class HashedFile(NamedTuple):
    """A file of which all that is read goes into ``digest``."""

    file: BinaryIO
    digest: Any

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


class Archive(tarfile.TarFile):
    """A tar that is written, and the digest of its members' names and contents."""

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: Any = None) -> None:
        digest = self.__dict__.setdefault("digest", hashlib.sha256())
        digest.update(f"{tarinfo.name}\0".encode(errors="surrogateescape"))
        super().addfile(tarinfo, cast(BinaryIO, HashedFile(fileobj, digest)))


@contextlib.contextmanager
def open_archive(file: BinaryIO, opener: Opener, *, is_compressed: bool) -> Iterator[Archive]:
    writer = EncryptedWriter(file, opener) if opener != NOBODY else None
    target = cast(BinaryIO, writer or file)  # of a stream tarfile asks for write() alone
    with Archive.open(fileobj=target, mode="w|gz" if is_compressed else "w|") as archive:
        yield archive
    if writer is not None:
        writer.finish()


def add_database(archive: Archive, path: Path, folder: Path) -> None:
    """Add a copy that is consistent whoever writes meanwhile: SQLite's own backup or pg_dump's, not copied files."""
    copy = folder / (POSTGRESQL if _url() else path.name)
    if _url():
        postgres.run(_url(), "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={copy}")
    else:
        uri = f"{path.resolve().as_uri()}?mode=rw"  # not "ro": a WAL that nobody has open is read by making its index
        with closing(sqlite3.connect(uri, uri=True, timeout=30)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    archive.add(copy, arcname=copy.name)
    copy.unlink()


def add_text(archive: Archive, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(text.encode()), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(text.encode()))


def add_file(archive: Archive, path: Path, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # it may go away meanwhile: its run was deleted
        archive.add(path, arcname=name, recursive=False)


def erasures_path(home: Path) -> Path:
    """Return the list of people who were erased: beside everything else, or where the settings say."""
    return Path(os.environ.get("ERASURES_FILE") or home / ERASURES)


if __name__ == "__main__":
    sys.exit(main())

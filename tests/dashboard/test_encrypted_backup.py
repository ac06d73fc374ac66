"""An encrypted backup holds nothing readable, and is restored with its passphrase or private key alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from dashboard import backup, restore
from dashboard.backup import ENVELOPE, MAGIC, Opener
from dashboard.up.checks import CannotStart
from tests.dashboard.test_backup import make_home
from trainyard.at_rest.chunks import CHUNK_BYTES, CannotDecrypt

WEIGHTS = os.urandom(CHUNK_BYTES) + b"the weights" + os.urandom(CHUNK_BYTES // 2)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    home = make_home(tmp_path / "home")
    (home / "runs" / "abc" / "output" / "model.safetensors").write_bytes(WEIGHTS)
    return home


def passphrase(folder: Path, words: str = "correct horse battery") -> Opener:
    path = folder / f"{words[:3]}.txt"
    path.write_text(f"{words}\n")
    return Opener(passphrase=path)


def key_pair(folder: Path, name: str = "backup") -> tuple[Opener, Opener]:
    """Return what encrypts and what opens."""
    key = X25519PrivateKey.generate()
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return Opener(key=public), Opener(key=private)


@pytest.mark.parametrize("name", ["all.tar", "all.tar.gz"])
@pytest.mark.parametrize("kind", ["passphrase", "key"])
def test_it_is_restored_as_it_was_and_shows_nothing_before(home: Path, tmp_path: Path, kind: str, name: str) -> None:
    to, opener = key_pair(tmp_path) if kind == "key" else (passphrase(tmp_path), passphrase(tmp_path))
    target = tmp_path / name
    assert backup.back_up(home, target, to) == target.stat().st_size
    data = target.read_bytes()
    assert data.startswith(MAGIC) and b"the weights" not in data and b"SQLite format" not in data
    restore.unpack(target, tmp_path / "new", opener)
    assert (tmp_path / "new" / "runs" / "abc" / "output" / "model.safetensors").read_bytes() == WEIGHTS
    assert (tmp_path / "new" / "secret_key").read_text() == "key"


def test_another_passphrase_or_key_opens_nothing(home: Path, tmp_path: Path) -> None:
    (to, _), (_, strange) = key_pair(tmp_path), key_pair(tmp_path, "other")
    backup.back_up(home, tmp_path / "a.tar", passphrase(tmp_path))
    backup.back_up(home, tmp_path / "b.tar", to)
    for name, opener in (("a.tar", passphrase(tmp_path, "another horse")), ("b.tar", strange)):
        with pytest.raises(CannotDecrypt):
            restore.unpack(tmp_path / name, tmp_path / "new", opener)
    for name, words in (("a.tar", "--passphrase-file"), ("b.tar", "--key")):
        with pytest.raises(CannotStart, match=words):
            restore.unpack(tmp_path / name, tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("at", [ENVELOPE.size - 1, ENVELOPE.size + 20, 600_000, -1])
def test_a_changed_backup_is_refused(home: Path, tmp_path: Path, at: int) -> None:
    target, opener = tmp_path / "all.tar", passphrase(tmp_path)
    backup.back_up(home, target, opener)
    data = bytearray(target.read_bytes())
    data[at] ^= 1
    target.write_bytes(data)
    with pytest.raises(CannotDecrypt):
        restore.unpack(target, tmp_path / "new", opener)
    target.write_bytes(target.read_bytes()[:-5])
    with pytest.raises(CannotDecrypt):
        restore.unpack(target, tmp_path / "newer", opener)


def test_a_short_passphrase_and_a_file_that_is_no_key_are_refused_before_anything_is_written(
    home: Path, tmp_path: Path
) -> None:
    strange = tmp_path / "ec.pub"
    point = generate_private_key(SECP256R1()).public_key()
    strange.write_bytes(point.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    for opener, words in (
        (passphrase(tmp_path, "short"), "at least 12"), (Opener(key=strange), "no public key of X25519"),
        (Opener(key=home / "secret_key"), "openssl genpkey"),
    ):  # fmt: skip
        with pytest.raises(CannotStart, match=words):
            backup.back_up(home, tmp_path / "all.tar", opener)
    assert not list(tmp_path.glob("*.tar*"))


def test_the_commands_say_what_is_missing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINYARD_HOME", str(home))
    target, words = tmp_path / "all.tar", str(passphrase(tmp_path).passphrase)
    assert backup.main([str(target), "--passphrase-file", words]) == 0
    assert f"trainyard restore {target} --passphrase-file FILE" in capsys.readouterr().out
    monkeypatch.setenv("TRAINYARD_HOME", str(tmp_path / "new"))
    assert restore.main([str(target), "--without-erasures"]) == 1
    assert "name its file with --passphrase-file" in capsys.readouterr().err
    other = str(passphrase(tmp_path, "another horse").passphrase)
    assert restore.main([str(target), "--without-erasures", "--passphrase-file", other]) == 1
    assert "does not open with this passphrase or key" in capsys.readouterr().err
    assert backup.main([str(tmp_path / "b.tar"), "--passphrase-file", str(tmp_path / "none")]) == 1

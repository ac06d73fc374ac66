"""Code bundles: packing gives the same bytes for the same files; unpacking trusts nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard import bundle
from trainyard.bundle import BundleError, pack, unpack


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "lib" / "größe.py").write_text("SIZE = 1\n")
    return folder


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        for entry, content in entries:
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue())


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_what_is_packed_comes_out_the_same(code: Path, tmp_path: Path) -> None:
    (code / "run.sh").write_text("#!/bin/sh\n")
    (code / "run.sh").chmod(0o755)
    data, sha256, names = pack(code)
    assert len(sha256) == 64
    assert sorted(names) == ["lib/größe.py", "run.sh", "train.py"]
    out = tmp_path / "out"
    assert unpack(data, out) == names
    assert (out / "lib" / "größe.py").read_text() == "SIZE = 1\n"
    assert os.access(out / "run.sh", os.X_OK)
    assert not os.access(out / "train.py", os.X_OK)


def test_the_same_files_give_the_same_digest_whenever_they_were_written(code: Path) -> None:
    first = pack(code)
    os.utime(code / "train.py", (1, 1))
    assert pack(code) == first


def test_git_caches_and_the_home_stay_out(code: Path) -> None:
    for name in bundle.LEFT_OUT:
        (code / "lib" / name).mkdir()
        (code / "lib" / name / "secret").write_text("x")
    assert sorted(pack(code)[2]) == ["lib/größe.py", "train.py"]


def test_a_link_to_a_file_inside_is_packed_as_a_file(code: Path, tmp_path: Path) -> None:
    (code / "again.py").symlink_to("train.py")
    unpack(pack(code)[0], tmp_path / "out")
    assert not (tmp_path / "out" / "again.py").is_symlink()
    assert (tmp_path / "out" / "again.py").read_text() == "print('hello')\n"


def test_a_link_that_leads_out_is_refused_by_name(code: Path) -> None:
    (code / "hosts").symlink_to("/etc/hosts")
    with pytest.raises(BundleError, match="hosts is a link"):
        pack(code)


def test_a_pipe_is_refused_by_name(code: Path) -> None:
    os.mkfifo(code / "pipe")
    with pytest.raises(BundleError, match="pipe is no regular file"):
        pack(code)


def test_a_folder_above_the_limit_is_refused(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_BYTES", 10)
    with pytest.raises(BundleError, match="smaller folder"):
        pack(code)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no folder"):
        pack(tmp_path / "missing")


@pytest.mark.parametrize(
    "bad",
    [
        entry("../evil.py"),
        entry("/etc/evil.py"),
        entry("a/../../evil.py"),
        entry("a//b.py"),
        entry("./a.py"),
        entry("a\\b.py"),
        entry("line\nbreak.py"),
        entry("x" * 600),
        entry("x" * 300),
        entry(f"lib/{'ö' * 130}/a.py"),
        entry("link", tarfile.SYMTYPE, "/etc/passwd"),
        entry("hard", tarfile.LNKTYPE, "train.py"),
        entry("device", tarfile.CHRTYPE),
        entry("pipe", tarfile.FIFOTYPE),
        entry("train.py/below.py"),
        entry("train.py"),
    ],
    ids=lambda bad: f"{bad.type!r} {bad.name[:20]!r}",
)
def test_a_bad_entry_is_refused_and_nothing_is_written(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    data = archive((entry("train.py"), b"print()"), (bad, b""))
    out = tmp_path / "out"
    with pytest.raises(BundleError):
        unpack(data, out)
    assert not out.exists()


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(bytes(bundle.MAX_BYTES + bundle.MAX_FILES * 2048 + 1))
    assert len(data) < 100_000
    with pytest.raises(BundleError, match="more than 50 MB"):
        unpack(data, tmp_path)


def test_a_truncated_bundle_is_refused(code: Path, tmp_path: Path) -> None:
    data = pack(code)[0]
    for length in (0, 5, len(data) // 2, len(data) - 1):
        with pytest.raises(BundleError):
            unpack(data[:length], tmp_path / "out")


@given(st.binary(max_size=2000))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    for candidate in (data, gzip.compress(data)):
        with contextlib.suppress(BundleError):
            assert unpack(candidate, Path("/nonexistent")) == []


@given(st.data())
def test_a_flipped_byte_raises_nothing_else(data: st.DataObject) -> None:
    plain = bytearray(gzip.decompress(archive((entry("train.py"), b"print()"), (entry("lib/a.py"), b"A = 1"))))
    plain[data.draw(st.integers(0, 2047))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as out, contextlib.suppress(BundleError):
        unpack(gzip.compress(bytes(plain)), Path(out))

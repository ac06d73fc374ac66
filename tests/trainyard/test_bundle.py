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
from trainyard.bundle import BundleError, find_code, pack, unpack
from trainyard.code_folder import LEFT_OUT


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
    for name in LEFT_OUT:
        (code / "lib" / name).mkdir()
        (code / "lib" / name / "secret").write_text("x")
    assert sorted(pack(code)[2]) == ["lib/größe.py", "train.py"]


def test_a_link_to_a_file_inside_is_packed_as_a_file(code: Path, tmp_path: Path) -> None:
    (code / "again.py").symlink_to("train.py")
    unpack(pack(code)[0], tmp_path / "out")
    assert not (tmp_path / "out" / "again.py").is_symlink()
    assert (tmp_path / "out" / "again.py").read_text() == "print('hello')\n"


def test_a_link_to_a_folder_inside_stays_one(code: Path, tmp_path: Path) -> None:
    (code / "lib" / "deep").mkdir()
    (code / "lib" / "deep" / "all").symlink_to("../..")
    (code / "models").symlink_to(code / "lib")
    (code / "package").symlink_to(".")
    data, _, names = pack(code)
    assert sorted(unpack(data, tmp_path / "out")) == names
    assert names == ["lib/deep/all", "lib/größe.py", "models", "package", "train.py"]
    assert (tmp_path / "out" / "models").readlink() == Path("lib")
    assert (tmp_path / "out" / "models" / "deep" / "all" / "train.py").read_text() == "print('hello')\n"


def test_links_that_lead_out_or_nowhere_are_left_out_and_listed(code: Path) -> None:
    (code / "hosts").symlink_to("/etc/hosts")
    (code / "etc").symlink_to("/etc")
    (code / "gone").symlink_to("nothing")
    (code / "round").symlink_to("round")
    (code / ".git").mkdir()
    (code / "objects").symlink_to(".git")
    found = find_code(code)
    assert sorted(found.lost) == ["etc", "gone", "hosts", "objects", "round"]
    assert sorted(pack(code)[2]) == ["lib/größe.py", "train.py"]
    assert "etc, gone, hosts, round and objects" in found.remarks()[0]


def test_what_ignore_files_name_is_left_out_and_listed(code: Path) -> None:
    for name in ("data/rows.csv", "lib/cache/x", "lib/a.log", "lib/keep.log", "w.pt", "best.pt", "top.pt"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text("x")
    (code / ".gitignore").write_text("# large\n/data/\n*.pt\n!top.pt\n*.log\n")
    (code / "lib" / ".gitignore").write_text("cache\n!keep.log\n")
    (code / ".trainyardignore").write_text("!best.pt\n")
    kept = [".gitignore", ".trainyardignore", "best.pt", "lib/.gitignore", "lib/größe.py", "lib/keep.log", "top.pt"]
    assert sorted(pack(code)[2]) == [*kept, "train.py"]
    found = find_code(code)
    assert found.ignored == ["data/", "lib/a.log", "lib/cache/", "w.pt"]
    assert found.remarks() == ["Left out by .gitignore and .trainyardignore: data/, lib/a.log, lib/cache/ and w.pt."]


def test_the_ignore_files_of_the_working_tree_above_count_too(code: Path) -> None:
    (code / ".git").mkdir()
    (code / ".gitignore").write_text("/lib/*.bin\n")
    (code / "lib" / "a.bin").write_text("x")
    assert pack(code / "lib")[2] == ["größe.py"]


def test_a_pipe_is_refused_by_name(code: Path) -> None:
    os.mkfifo(code / "pipe")
    with pytest.raises(BundleError, match="pipe is no regular file"):
        pack(code)


def test_a_folder_above_the_limit_is_refused(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_BYTES", 1000)
    for name, number in (("data/deep/rows", 5000), ("data/deep/more", 4000), ("weights.pt", 3000), ("lib/b", 700)):
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_bytes(bytes(number))
    with pytest.raises(BundleError, match="smaller folder") as raised:
        pack(code)
    most = "(the largest: data/deep/ (8.8 KiB), weights.pt (2.9 KiB) and lib/b (700 B)); name what is to stay behind"
    assert most in str(raised.value)
    monkeypatch.setattr(bundle, "MAX_BYTES", 100_000)
    monkeypatch.setattr(bundle, "MAX_FILES", 3)
    with pytest.raises(BundleError, match=r"has 6 files, more than 3 \(the largest: .*lib/ \(2 files\)"):
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
        entry("up", tarfile.SYMTYPE, ".."),
        entry("itself", tarfile.SYMTYPE, "itself"),
        entry("nowhere", tarfile.SYMTYPE, "lib"),
        entry("empty", tarfile.SYMTYPE, ""),
        entry("round/link", tarfile.SYMTYPE, "../round/../.."),
        entry("to-a-file", tarfile.SYMTYPE, "train.py"),
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


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Nor leads a link by another one out of the folder."""
    deep, root = entry("a/b/deep.py"), entry("a/b/root", tarfile.SYMTYPE, "../..")
    for bad in (
        entry("a/b/root/evil.py"),
        entry("x", tarfile.SYMTYPE, "a/b/root/../a"),
        entry("y", tarfile.SYMTYPE, "a/b/root/a"),
    ):
        with pytest.raises(BundleError):
            unpack(archive((deep, b""), (root, b""), (bad, b"")), tmp_path / "out")
        assert not (tmp_path / "out").exists()


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

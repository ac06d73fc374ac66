"""Opening below a folder that somebody else writes, by openat2 and part by part."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.spooling import held_folder
from trainyard.spooling.held_folder import HeldFolder, remove_tree


@pytest.fixture(params=["openat2", "part by part"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "part by part":
        monkeypatch.setattr(held_folder, "has_openat2", lambda: False)
    elif not held_folder.has_openat2():
        pytest.skip("this kernel has no openat2")


def test_no_call_is_made_that_another_system_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS ends whoever makes one."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(held_folder, "_openat2", lambda *_: pytest.fail("it was made"))
    assert not held_folder.has_openat2.__wrapped__()


@pytest.fixture
def folder(tmp_path: Path, way: None) -> Iterator[HeldFolder]:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    (inside / "deep" / "file").write_text("mine")
    (inside / "out").symlink_to(tmp_path / "outside")
    (inside / "up").symlink_to("..")
    (inside / "key").symlink_to(tmp_path / "outside" / "key")
    (inside / "in").symlink_to("deep")
    with HeldFolder.open(inside) as held:
        yield held


@pytest.mark.parametrize(
    "name", ["out/key", "up/outside/key", "../outside/key", "deep/../../outside/key", "key", "in/file", "/etc/passwd",
             "deep/file\0"],
)  # fmt: skip
def test_no_link_and_no_name_leads_out(folder: HeldFolder, tmp_path: Path, name: str) -> None:
    for act in (folder.open_file, folder.append):
        with pytest.raises(OSError):
            act(name)
    with pytest.raises(OSError):
        folder.move(name.rpartition("/")[0] + "/key" if "/" in name else "key/key", folder)
    assert (tmp_path / "outside" / "key").read_text() == "secret"


def test_what_lies_inside_is_read_looked_at_and_appended_to(folder: HeldFolder, tmp_path: Path) -> None:
    with folder.open_file("deep/file") as file:
        assert file.read() == b"mine"
    for text in (b"one\n", b"two\n"):
        descriptor = folder.append("deep/log")
        os.write(descriptor, text)
        os.close(descriptor)
    assert (tmp_path / "inside" / "deep" / "log").read_text() == "one\ntwo\n"
    assert folder.stat("deep/file").st_size == 4
    assert [name for name, _ in folder.walk()] == ["in", "key", "out", "up", "deep/file", "deep/log"]


def test_links_are_followed_by_their_names_alone(folder: HeldFolder, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    (inside / "deep" / "absolute").symlink_to(inside / "in" / "file")
    (inside / "loop").symlink_to("loop")
    assert folder.real_name("in/file", inside) == "deep/file"
    assert folder.real_name("deep/absolute", inside) == "deep/file"
    for name in ("out/key", "up/outside", "key", "loop", "deep/../..", "deep/.."):
        with pytest.raises(OSError):
            folder.real_name(name, inside)


def test_pipes_sockets_and_folders_are_no_files(folder: HeldFolder, tmp_path: Path) -> None:
    """A pipe that nobody writes would hold up whoever opens it."""
    os.mkfifo(tmp_path / "inside" / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{folder.descriptor}/socket")
    for name in ("pipe", "socket", "deep"):
        for act in (folder.open_file, folder.append):
            with pytest.raises(OSError):
                act(name)


def test_a_folder_that_changes_all_the_time_never_leads_out(folder: HeldFolder, tmp_path: Path) -> None:
    """Another thread swaps it for a link as fast as it can."""
    inside, over = tmp_path / "inside", threading.Event()
    (inside / "deep" / "key").write_text("mine")

    def swap() -> None:
        while not over.is_set():
            (inside / "deep").rename(inside / "aside")
            (inside / "deep").symlink_to(tmp_path / "outside")
            (inside / "deep").unlink()
            (inside / "aside").rename(inside / "deep")

    thread = threading.Thread(target=swap)
    thread.start()
    found = set()
    try:
        for number in range(500_000):
            if number > 20_000 and len(found) > 1:
                break
            try:
                with folder.open_file("deep/key") as file:
                    found.add(file.read())
            except OSError:
                found.add(b"refused")
    finally:
        over.set()
        thread.join()
    assert found == {b"mine", b"refused"}


def test_a_file_that_its_owner_has_leased_does_not_hold_up_who_opens_it(folder: HeldFolder, tmp_path: Path) -> None:
    """The kernel gives its owner 45 s to let go, and says EAGAIN meanwhile."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # as which the kernel tells the owner, here this process
    leased = os.open(tmp_path / "inside" / "deep" / "file", os.O_RDWR)
    try:
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        for act in (folder.open_file, folder.append):
            with pytest.raises(BlockingIOError):
                act("deep/file")
    finally:
        os.close(leased)
        signal.signal(signal.SIGIO, signal.SIG_DFL)


def test_a_file_that_goes_meanwhile_hides_no_other(folder: HeldFolder, tmp_path: Path) -> None:
    drafts = "import os, itertools\nfor at in itertools.count(): open(str(at), 'w').close(); os.unlink(str(at))"
    writer = subprocess.Popen([sys.executable, "-c", drafts], cwd=tmp_path / "inside" / "deep")
    try:
        found = [dict(folder.walk()) for _ in range(2000)]
    finally:
        writer.kill()
        writer.wait()
    assert all("deep/file" in names for names in found)


def test_a_tree_is_removed_and_nothing_that_its_links_lead_to(folder: HeldFolder, tmp_path: Path) -> None:
    (tmp_path / "inside" / "deep" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "deep" / "closed").mkdir()
    (tmp_path / "inside" / "deep" / "closed" / "inner").mkdir()
    (tmp_path / "inside" / "deep" / "closed").chmod(0o500)
    remove_tree(tmp_path / "inside")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside" / "key").read_text() == "secret"
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "nothing")
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["key"]


def test_what_cannot_be_removed_keeps_nothing_else(folder: HeldFolder, tmp_path: Path) -> None:
    """Something is mounted there, or the file of another machine's process on NFS."""
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "busy":
            raise OSError(errno.EBUSY, "busy")
        unlink(name, dir_fd=dir_fd)

    for name in ("busy", *map(str, range(50))):
        (tmp_path / "inside" / "deep" / name).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        remove_tree(tmp_path / "inside")
    assert [path.name for path in (tmp_path / "inside").rglob("*")] == ["deep", "busy"]


def test_a_file_is_removed_and_never_one_behind_a_link(folder: HeldFolder, tmp_path: Path) -> None:
    folder.remove("deep/file")
    assert not (tmp_path / "inside" / "deep" / "file").exists()
    folder.remove("key")
    assert (tmp_path / "outside" / "key").read_text() == "secret"
    with pytest.raises(OSError, match=r"Not a directory|Too many"):
        folder.remove("out/key")
    assert (tmp_path / "outside" / "key").exists()

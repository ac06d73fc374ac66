"""A rank that puts links in place of its files while the node, which is root, works on them.

The rank is a process of another user that works in one of its attempt's folders. It waits until the node opens a file
there and then swaps the folder beside it for a link to the server's home, where files have the same names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.workers.web import Site, serve_site
from trainyard.contract.limits import UPLOAD_PART_BYTES
from trainyard.contract.orders import Order
from trainyard.contract.seals import new_key
from trainyard.spec.sections.environment import EnvironmentSection
from trainyard.spooling import plain_files
from trainyard.spooling.held_folder import remove_tree
from trainyard.spooling.reader import SpoolReader
from workers.attempt.folder import AttemptFolder
from workers.node.finished import send_traces
from workers.node.output.files import record_code, take_over
from workers.node.output.sending import carry_out_decision, upload_output
from workers.node.server_client import ServerClient
from workers.node.worker import sweep
from workers.sandbox.node import NO_ISOLATION, hand_over
from workers.supervisor.environment import EnvironmentBuild
from workers.supervisor.ranks.tracebacks import last_lines
from workers.supervisor.records.masked_output import MaskedOutput
from workers.transport.node_config import NodeConfig, make_home

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

RANK = 1_900_000_001
SECRET = b"the administrator's token"
KEY = new_key()
ORDER = Order(attempt="a", run="r", fence=2)
SWAP = """
import ctypes, os, sys
held, user, watched, swapped, target = sys.argv[1:]
os.fchdir(int(held))
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, os.fsencode(watched), 0x20) >= 0  # IN_OPEN
print("waits", flush=True)
os.read(watch, 4096)
os.rename(swapped, "gone")
os.symlink(target, swapped)
print("swapped", flush=True)
"""


@pytest.fixture(autouse=True)
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where fs.protected_hardlinks is off: there anybody may make a hard link to any file."""
    monkeypatch.setattr(plain_files, "are_hard_links_guarded", lambda: False)


@pytest.mark.skipif(not plain_files.are_hard_links_guarded(), reason="fs.protected_hardlinks is off")
def test_where_links_are_guarded_no_rank_makes_one_to_a_file_of_root(tmp_path: Path) -> None:
    hand_over(tmp_path, RANK)
    (tmp_path / "spool").write_bytes(SECRET)
    (tmp_path / "spool").chmod(0o600)
    become = f"import os; os.setgroups([]); os.setgid({RANK}); os.setuid({RANK})"
    command = [sys.executable, "-c", f"{become}; open('own', 'w'); os.link('own', 'second'); os.link('spool', 'third')"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "PermissionError" in done.stderr and "'spool' -> 'third'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "second", "spool"]


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.key = KEY
        yield site


@pytest.fixture
def server(site: Site) -> ServerClient:
    return ServerClient(NodeConfig(site.url, "n1", "one", KEY, "unix:///x", "local"))


@pytest.fixture
def folder(home: Path) -> AttemptFolder:
    make_home(home)
    folder = AttemptFolder(home / "attempts" / "a")
    folder.create(ORDER)
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """The server's home, which only root may read."""
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    (folder / "client.toml").write_bytes(SECRET)
    return folder


@contextmanager
def racing_rank(folder: Path, watched: str, swapped: str, target: Path) -> Iterator[None]:
    """A rank that works in ``folder``, which is its own: it swaps once ``watched`` is opened there."""
    hand_over(folder, RANK)
    held = os.open(folder, os.O_RDONLY)
    command = [sys.executable, "-I", "-c", SWAP, str(held), str(RANK), watched, swapped, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[held]) as rank:
        try:
            assert rank.stdout is not None and rank.stdout.readline() == "waits\n"
            yield
            assert rank.stdout.readline() == "swapped\n", "the rank had nothing to wait for"
        finally:
            rank.kill()
            os.close(held)


def lay_out(folder: Path, size: int = 0) -> None:
    """A file that takes a moment to send, and behind it one of the secret's name in a folder."""
    (folder / "a.bin").write_bytes(bytes(4_000_000))
    (folder / "d").mkdir()
    (folder / "d" / "client.toml").write_bytes(b"x" * (size or len(SECRET)))


def test_no_output_file_comes_from_behind_a_folder_that_became_a_link(
    site: Site, server: ServerClient, folder: AttemptFolder, secret: Path
) -> None:
    lay_out(folder.output)
    with racing_rank(folder.output, "a.bin", "d", secret), suppress(OSError):
        upload_output(ORDER, folder, server)
    assert SECRET not in site.files.values()
    upload_output(ORDER, folder, server)  # as the node does some time later
    assert SECRET not in site.files.values()
    assert folder.output_sent().refused == {"d": "It is a link that leads out of the folder."}


def test_no_large_file_comes_from_behind_a_folder_that_became_a_link(
    site: Site, server: ServerClient, folder: AttemptFolder, secret: Path
) -> None:
    large = SECRET + bytes(UPLOAD_PART_BYTES)
    (secret / "client.toml").write_bytes(large)
    lay_out(folder.output, len(large))
    for path in (secret, folder.output / "d"):
        os.utime(path / "client.toml", ns=(1_000_000_000, 1_000_000_000))  # a rank can guess both
    with racing_rank(folder.output, "a.bin", "d", secret), suppress(OSError):
        upload_output(ORDER, folder, server)
    assert not [data for _, _, data in site.uploads.values() if data.startswith(SECRET)]


def test_no_trace_comes_from_behind_a_folder_that_became_a_link(
    site: Site, server: ServerClient, folder: AttemptFolder, secret: Path
) -> None:
    (secret / "step-2.rank-0.json.gz").write_bytes(SECRET)
    (folder.output / "traces").mkdir()
    for step in (1, 2):
        (folder.output / "traces" / f"step-{step}.rank-0.json.gz").write_bytes(bytes(4_000_000))
    with racing_rank(folder.output, "traces/step-1.rank-0.json.gz", "traces", secret), suppress(OSError):
        send_traces(ORDER, folder, server)
    assert SECRET not in site.files.values()


def test_the_working_folder_is_sent_without_what_lies_behind_a_folder_that_became_a_link(
    site: Site, server: ServerClient, folder: AttemptFolder, secret: Path
) -> None:
    record_code(folder)
    lay_out(folder.code)
    with racing_rank(folder.code, "a.bin", "d", secret), suppress(OSError):
        carry_out_decision("upload", ORDER, folder, server)
    assert SECRET not in site.files.values()


def test_a_later_attempt_takes_nothing_over_from_behind_a_link(folder: AttemptFolder, secret: Path) -> None:
    """The older one's folder ``d`` is a link by now; the newer one's is a folder."""
    newer = AttemptFolder(folder.path.with_name("b"))
    newer.create(Order(attempt="b", run="r", fence=3))
    (newer.code / "d").mkdir()
    record_code(folder)
    (folder.code / "d").symlink_to(secret)
    (folder.code / "new").write_text("mine")
    assert take_over(folder, newer) == 1
    assert (newer.code / "new").read_text() == "mine" and list((newer.code / "d").iterdir()) == []
    assert (secret / "client.toml").read_bytes() == SECRET


def test_a_hard_link_to_a_file_of_somebody_else_is_not_sent(
    site: Site, server: ServerClient, folder: AttemptFolder, secret: Path
) -> None:
    """Where fs.protected_hardlinks is off, anybody may make one."""
    hand_over(folder.output, RANK)
    (folder.output / "client.toml").hardlink_to(secret / "client.toml")
    with suppress(OSError):
        upload_output(ORDER, folder, server)
    assert SECRET not in site.files.values()


def test_a_hard_link_in_the_spool_or_among_the_logs_is_not_read(folder: AttemptFolder, secret: Path) -> None:
    """What is no frame would be sent as the evidence of damage."""
    for path in (folder.spool / "p.1.spool", folder.stream_path(0, "stdout")):
        hand_over(path.parent, RANK)
        path.hardlink_to(secret / "client.toml")
    with suppress(OSError):
        frames = SpoolReader(folder.spool, "p").read(1 << 20, [1], is_over=True)
        assert not [one for one in frames if SECRET in one.raw]
    assert last_lines(folder.stream_path(0, "stdout")) == []


def test_a_folder_is_handed_over_without_links_to_files_of_others(folder: AttemptFolder, secret: Path) -> None:
    (folder.code / "client.toml").hardlink_to(secret / "client.toml")
    (folder.code / "link").symlink_to(secret / "client.toml")
    (folder.code / "one").write_text("")
    (folder.code / "two").hardlink_to(folder.code / "one")
    (folder.code / "deep" / "er").mkdir(parents=True)
    hand_over(folder.code, RANK)
    assert (secret / "client.toml").stat().st_uid == 0
    mine = [folder.code, *(folder.code / name for name in ("one", "two", "deep", "deep/er"))]
    assert [path.stat().st_uid for path in mine] == [RANK] * 5


@pytest.mark.parametrize("kind", ["hard link", "link", "pipe"])
def test_masked_output_is_written_to_no_file_but_the_ranks_own(folder: AttemptFolder, secret: Path, kind: str) -> None:
    hand_over(folder.logs, RANK)
    path = folder.stream_path(0, "stdout")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(secret / "client.toml")
    else:
        path.hardlink_to(secret / "client.toml")
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    output = MaskedOutput(folder, 0, [(out, err)], [])
    output.start()
    os.write(to_out, b"* * * * * root sh\n")
    os.write(to_err, b"an error\n")
    os.close(to_out)
    os.close(to_err)
    output.join(30)
    assert not output.is_alive(), "the other stream goes on"
    assert (secret / "client.toml").read_bytes() == SECRET
    assert folder.stream_path(0, "stderr").read_bytes() == b"an error\n"


def test_the_log_of_a_build_is_no_link_that_another_process_left(folder: AttemptFolder, secret: Path) -> None:
    hand_over(folder.logs, RANK)
    folder.stream_path(0, "build").symlink_to(secret / "client.toml")
    section = EnvironmentSection(conda="environment.yml")
    assert EnvironmentBuild(section, ORDER, folder, folder.path.parents[1], NO_ISOLATION).problem is not None
    assert (secret / "client.toml").read_bytes() == SECRET


def test_what_a_rank_nested_without_end_is_removed(server: ServerClient, site: Site, tmp_path: Path) -> None:
    """Deeper than Python recurses, and than a path may be long; the folder of a run that was deleted goes."""
    root = tmp_path / "checkpoints"
    (root / "abc").mkdir(parents=True)
    descriptor = os.open(root / "abc", os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    site.gone.add("abc")
    try:
        assert sweep(root, server) == ["abc"]
        assert list(root.iterdir()) == []
    finally:
        remove_tree(root)  # pytest itself cannot

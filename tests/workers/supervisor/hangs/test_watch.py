"""A cut network, with a real connection in a network namespace of its own whose interface goes down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.contract.reports import RankStall
from workers.supervisor.hangs import watch
from workers.supervisor.hangs.watch import LASTING_TRIES, LEAST_TRIES, unacknowledged

CUT = """
import os, socket, subprocess, sys, time
from workers.supervisor.hangs.watch import unacknowledged
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(server.getsockname())
far, _ = server.accept()
near.send(b"one")
assert far.recv(3) == b"one" and unacknowledged(os.getpid()) == []
subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
near.send(b"two")
deadline = time.monotonic() + 20
while not (found := unacknowledged(os.getpid())):
    assert time.monotonic() < deadline, "the cut was not found"
    time.sleep(0.1)
assert found == [f"127.0.0.1:{server.getsockname()[1]}"], found
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"), reason="needs a network of its own"
)
def test_a_connection_over_a_cut_network_is_found_in_seconds() -> None:
    subprocess.run(["unshare", "--net", sys.executable, "-c", CUT], check=True, timeout=60)


def test_other_processes_sockets_and_shorter_waits_do_not_count(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = (
        "   {}: 0100007F:D2BA 0200000A:9ECD 01 {:08X}:00000000 {}:0000007D {:08X}     0        0 {} 2 0 163 0 0 1 -1\n"
    )
    rows = [row.format(0, 1000, "01", 3, 11), row.format(1, 1000, "01", 2, 12), row.format(2, 1000, "01", 9, 13)]
    rows += [row.format(3, 0, "00", 0, 14), row.format(4, 1000, "04", 7, 15)]  # idle; a peer that does not read
    net, held = tmp_path / "7" / "net", tmp_path / "7" / "fd"
    net.mkdir(parents=True)
    held.mkdir()
    (net / "tcp").write_text(head + "".join(rows))
    v6 = "   0: 00000000000000000000000001000000:D2BA 00000000000000000000000001000000:0050 01 00000001:00000000 "
    (net / "tcp6").write_text(head + v6 + "01:0000007D 00000005     0        0 16 2 0 163 0 0 1 -1\n")
    for number, inode in enumerate((11, 12, 14, 15, 16)):
        (held / str(number)).symlink_to(f"socket:[{inode}]")
    (held / "9").symlink_to("/dev/null")
    assert unacknowledged(7, tmp_path) == ["10.0.0.2:40653", "::1:80"]
    assert unacknowledged(7, tmp_path, least_tries=LASTING_TRIES) == ["::1:80"]
    assert unacknowledged(8, tmp_path) == []


@pytest.mark.parametrize(
    ("tries", "waited_s", "is_over"),
    [
        (LEAST_TRIES, 30.0, False),  # cut for two seconds, late in a long step
        (LASTING_TRIES, 7.0, False),
        (LASTING_TRIES, 8.0, True),
        (0, 8.0, False),
        (0, 61.0, True),  # its own limit has passed
    ],
)
def test_a_short_cut_ends_no_rank_and_a_lasting_one_does_in_seconds(
    monkeypatch: pytest.MonkeyPatch, tries: int, waited_s: float, is_over: bool
) -> None:
    def found(_pid: int, *, least_tries: int = LEAST_TRIES) -> list[str]:
        return ["10.0.0.2:40653"] if tries >= least_tries else []

    monkeypatch.setattr(watch, "unacknowledged", found)
    stall = RankStall(since=100.0, limit_s=60.0, is_over=waited_s >= 60)
    watch.add_network(stall, 7, 100.0 + waited_s)
    assert stall.is_over is is_over

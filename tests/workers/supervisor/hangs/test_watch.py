"""A cut network, with a real connection in a network namespace of its own whose interface goes down."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trainyard.contract.reports import PendingCollective, RankStall
from trainyard.spec.sections.hangs import HangRules
from workers.progress.description import Description
from workers.progress.marker import Marks
from workers.supervisor.hangs import watch
from workers.supervisor.hangs.watch import LASTING_TRIES, LEAST_TRIES, RankTraits, Sample, Tracker, unacknowledged

RECIPE, SCRIPT, ALONE = RankTraits(True, True), RankTraits(False, True), RankTraits(False, False)
IN_A_COLLECTIVE = msgspec.json.encode(
    Description(collective=PendingCollective(operation="all_reduce"), line="train.py line 84", entered={"0": 7})
)
CUT = """
import os, socket, subprocess, sys, time
from workers.progress.sampler import probe_connections
from workers.supervisor.hangs.watch import unacknowledged
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(server.getsockname())
far, _ = server.accept()
near.send(b"one")
assert far.recv(3) == b"one" and unacknowledged(os.getpid()) == []
subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
if sys.argv[1] == "sends":
    near.send(b"two")
else:
    probe_connections()
deadline = time.monotonic() + 20
while not (found := unacknowledged(os.getpid())):
    assert time.monotonic() < deadline, "the cut was not found"
    time.sleep(0.1)
assert f"127.0.0.1:{server.getsockname()[1]}" in found, found
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"), reason="needs a network of its own"
)
@pytest.mark.parametrize("what", ["sends", "only waits"])
def test_a_connection_over_a_cut_network_is_found_in_seconds(what: str) -> None:
    subprocess.run(["unshare", "--net", sys.executable, "-c", CUT, what], check=True, timeout=60)


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
    probe = "   5: 0100007F:D2BA 0200000A:0051 01 00000000:00000000 02:0000007D 00000000     0        {} {} 2 0 1 1 1\n"
    with (net / "tcp").open("a") as table:
        table.write(probe.format(2, 17) + probe.replace("0051", "0052").format(3, 18))
    for number, inode in ((17, 17), (18, 18)):
        (held / str(number)).symlink_to(f"socket:[{inode}]")
    assert unacknowledged(7, tmp_path) == ["10.0.0.2:40653", "10.0.0.2:82", "::1:80"]
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


# When a rank counts as hung: with a clock of the test's own.


class Rank:
    """A rank and its tracker, looked at twice a second."""

    def __init__(self, kind: RankTraits, after_s: float | None = None) -> None:
        self.tracker = Tracker(HangRules(after_s), kind, now=0.0)
        self.now = 0.0
        self.marks = Marks(0, "", 0, b"")

    def let(self, seconds: float, *, alive: bool = False, stopped: bool = False, **marks: object) -> RankStall | None:
        self.marks = self.marks._replace(**marks)
        stall = None
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            stall = self.tracker.update(
                Sample(self.now, 1e9 + self.now, self.marks, is_stopped=stopped, is_alive=alive)
            )
        return stall

    def train(self, steps: int, each_s: float = 1.0) -> None:
        for step in range(self.marks.step + 1, self.marks.step + steps + 1):
            assert self.let(each_s, step=step, phase="forward") is None


def test_a_training_is_hung_after_ten_of_its_own_steps_and_not_before_a_minute() -> None:
    quick, slow = Rank(RECIPE), Rank(RECIPE)
    quick.train(20)
    stall = quick.let(50)
    assert stall is not None and not stall.is_over
    stall = quick.let(12)
    assert stall is not None and stall.is_over and (stall.step, stall.phase, stall.limit_s) == (20, "forward", 60.0)
    slow.train(4, each_s=30)
    stall = slow.let(299 - 30)
    assert stall is not None and not stall.is_over
    stall = slow.let(40)
    assert stall is not None and stall.is_over and stall.limit_s == 300.0


def test_a_validation_a_checkpoint_and_a_compilation_have_time() -> None:
    compiling = msgspec.json.encode(Description(is_compiling=True))
    for marks in ({"phase": "validation"}, {"phase": "checkpoint"}, {"phase": "data"}, {"text": compiling}):
        rank = Rank(RECIPE, after_s=5)
        rank.train(10)
        assert rank.let(200, **marks) is None, marks
        rank.let(0.5, step=11, phase="forward", text=b"")
        stall = rank.let(6)
        assert stall is not None and stall.is_over  # the time in the phase does not count, what follows does


def test_a_phase_beside_the_steps_that_never_ends_is_found_too() -> None:
    rank = Rank(RECIPE, after_s=5)
    rank.train(10)
    stall = rank.let(601, phase="data")
    assert stall is not None and stall.is_over and stall.phase == "data"


def test_a_phase_may_take_ten_times_what_it_took_before() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    rank.let(100, phase="validation", entered=1)
    rank.train(10)
    stall = rank.let(900, phase="validation")
    assert stall is not None and not stall.is_over and stall.limit_s >= 1000


def test_a_start_has_a_longer_limit() -> None:
    rank = Rank(RECIPE, after_s=5)
    assert rank.let(290) is None
    assert rank.let(200, step=1, phase="forward", alive=True) is None  # it compiles: it uses the processor
    stall = rank.let(601)
    assert stall is not None and stall.is_over


def test_a_stopped_process_is_reported_in_seconds_and_counts_as_hung_after_15() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    assert rank.let(1.5, stopped=True) is None
    stall = rank.let(1.5, stopped=True)
    assert stall is not None and stall.is_stopped and not stall.is_over and stall.step == 10
    stall = rank.let(14, stopped=True)
    assert stall is not None and stall.is_over
    assert rank.let(4) is None  # it goes on


def test_a_script_that_computes_or_prints_is_at_work() -> None:
    rank = Rank(SCRIPT, after_s=5)
    rank.let(10, alive=True)
    assert rank.let(600, alive=True) is None


def test_a_script_that_waits_in_a_collective_is_hung_whatever_it_computes() -> None:
    rank = Rank(SCRIPT, after_s=5)
    for entered in range(1, 20):
        rank.let(0.5, entered=entered)
    stall = rank.let(6, alive=True, text=IN_A_COLLECTIVE)  # NCCL waits with a busy processor
    assert stall is not None and stall.is_over
    assert stall.collective is not None and stall.collective.operation == "all_reduce"
    assert (stall.line, stall.entered, stall.step) == ("train.py line 84", {"0": 7}, None)


def test_a_single_process_that_waits_for_work_is_no_hang_unless_somebody_says_so() -> None:
    assert Rank(ALONE).let(100_000) is None
    stall = Rank(ALONE, after_s=30).let(31)
    assert stall is not None and stall.is_over


def test_time_in_which_nobody_looked_does_not_count() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    rank.now += 3_600  # the machine was suspended
    assert rank.let(4) is None


def test_what_is_no_description_is_none() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    stall = rank.let(61, text=b"\xff{")
    assert stall is not None and stall.is_over and stall.line == ""

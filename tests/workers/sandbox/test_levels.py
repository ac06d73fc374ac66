"""Sandbox levels as settings name them, control groups as a folder shows them, and the filter of system calls."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainyard.contract.machines import SandboxLevel
from trainyard.contract.orders import Order
from workers.kernel import CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_SLAVE, PR_SET_NO_NEW_PRIVS, mount, prctl, unshare
from workers.node.attempts import refuse_isolation
from workers.node.preparation.orders import CannotRunHere
from workers.sandbox import cgroups, node, seccomp
from workers.sandbox.cgroups import CgroupLimits, MemoryEvents
from workers.sandbox.node import CannotIsolate, Isolation, Probe, find_isolation
from workers.sandbox.probe import in_child, probe
from workers.sandbox.process import Mechanism
from workers.supervisor.ranks.confinement import limits_of

FULL = Probe(Mechanism.USER_AND_NAMESPACE, SandboxLevel.NAMESPACES)
LOW = Probe(Mechanism.USER, SandboxLevel.USER, ("Level 2 needs mounts.",))


def found(monkeypatch: pytest.MonkeyPatch, home: Path, probe: Probe, **environ: str) -> Isolation:
    monkeypatch.setattr(node, "probed", lambda _: probe)
    return find_isolation(home, environ={"TRAINYARD_CGROUP": "off", **environ})


def test_the_highest_level_that_the_machine_allows_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert found(monkeypatch, tmp_path, FULL).level == 2
    low = found(monkeypatch, tmp_path, LOW)
    assert (low.level, low.described().missing) == (1, ["Level 2 needs mounts."])
    named = found(monkeypatch, tmp_path, FULL, TRAINYARD_ISOLATION="1", TRAINYARD_RANK_MEMORY="2G")
    assert (named.level, named.mechanism, named.memory_bytes) == (1, Mechanism.USER_AND_NAMESPACE, 2 << 30)
    assert not named.sandbox("p", own=[]).is_filtered
    assert found(monkeypatch, tmp_path, FULL, TRAINYARD_ISOLATION="off").mechanism == Mechanism.NONE


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"TRAINYARD_ISOLATION": "3"}, "level 3 is a container"),
        ({"TRAINYARD_ISOLATION": "most"}, "'most' is no sandbox level"),
        ({"TRAINYARD_ISOLATION": "2"}, "allows level 1 only. Level 2 needs mounts."),
        ({"TRAINYARD_RANK_NETWORK": "own"}, "needs sandbox level 2"),
        ({"TRAINYARD_RANK_NETWORK": "mine"}, "'mine' is neither host nor own"),
        ({"TRAINYARD_RANK_MEMORY": "much"}, "TRAINYARD_RANK_MEMORY: 'much' is no number of bytes"),
        ({"TRAINYARD_RANK_CPUS": "nan"}, "TRAINYARD_RANK_CPUS: 'nan' is no number of cores"),
    ],
)
def test_a_setting_that_cannot_be_met_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    with pytest.raises(CannotIsolate) as refused:
        found(monkeypatch, tmp_path, LOW, **environ)
    assert words in str(refused.value)


def test_a_node_refuses_an_order_above_its_level_or_outside_of_its_network() -> None:
    order = Order(attempt="a", run="r", fence=1, node_name="one", num_nodes=2, isolation_minimum=2)
    with pytest.raises(CannotRunHere, match=r"one has sandbox level 1, and its cluster asks for 2\. Why\."):
        refuse_isolation(order, Isolation(level=SandboxLevel.USER, missing=("Why.",)))
    with pytest.raises(CannotRunHere, match="needs 2 nodes"):
        refuse_isolation(order, Isolation(level=SandboxLevel.NAMESPACES, has_own_network=True))
    refuse_isolation(order, Isolation(level=SandboxLevel.NAMESPACES))


def group_in(folder: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    """Return a folder that looks like a control group. A real one has its files by itself."""
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    return folder


def process_in(folder: Path, group: str, point: Path) -> Path:
    folder.mkdir()
    (folder / "cgroup").write_text(f"3:memory:/\n0::{group}\n")
    (folder / "mountinfo").write_text(
        f"22 1 0:1 / / rw - ext4 /dev/sda rw\n30 22 0:2 / {point} rw,nosuid - cgroup2 cgroup2 rw\n"
    )
    return folder


def test_the_own_group_is_used_where_it_has_the_controllers(tmp_path: Path) -> None:
    group = group_in(tmp_path / "fs" / "service")
    left = group / "trainyard-left"
    left.mkdir()
    proc = process_in(tmp_path / "proc", "/service", tmp_path / "fs")
    assert cgroups.find_group({}, proc) == (str(group), "")
    assert (group / "cgroup.subtree_control").read_text() == "+cpu +memory +pids" and not left.exists()


def test_why_there_is_no_group_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group_in(tmp_path / "fs" / "service", "hugetlb")
    proc = process_in(tmp_path / "proc", "/service", tmp_path / "fs")
    assert "has no cpu, memory and pids, which version 1" in cgroups.find_group({}, proc)[1]
    assert cgroups.find_group({}, tmp_path / "none")[1] == "this machine mounts no control groups of version 2"
    assert cgroups.find_group({"TRAINYARD_CGROUP": "off"}, proc) == ("", "TRAINYARD_CGROUP=off")
    assert "is no control group" in cgroups.find_group({"TRAINYARD_CGROUP": str(tmp_path)}, proc)[1]
    busy = group_in(tmp_path / "busy")
    monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(OSError(errno.EBUSY, "busy")))
    assert "holds processes itself" in cgroups.find_group({"TRAINYARD_CGROUP": str(busy)}, proc)[1]


def test_an_attempts_group_has_its_limits_and_counts_what_the_kernel_killed(tmp_path: Path) -> None:
    parent = group_in(tmp_path / "ours")
    (parent / "memory.max").write_text(str(10 << 30))
    isolation = Isolation(processes=100, cpus=1.5, cgroup=str(parent))
    limits = limits_of(isolation, 2)
    assert limits == CgroupLimits(cgroups.memory_to_share(parent), 3.0, 100, 200) and limits.memory_bytes < 10 << 30
    group = cgroups.make(parent, "abc", limits._replace(memory_bytes=1 << 30))
    written = {path.name: path.read_text() for path in group.iterdir()}
    assert written == {"memory.max": str(1 << 30), "memory.swap.max": "0", "pids.max": "100",
                       "cpu.max": "300000 100000", "cpu.weight": "200"}  # fmt: skip
    assert cgroups.memory_events(group) == MemoryEvents()
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n")
    assert cgroups.memory_events(group) == MemoryEvents(2, 1)


def test_the_filter_refuses_ways_out_and_lets_programs_and_threads_be_started() -> None:
    if sys.platform != "linux" or seccomp.problem():
        pytest.skip(seccomp.problem() or "filters are Linux's")

    def act() -> str:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        seccomp.filter_calls()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        assert subprocess.run(["true"]).returncode == 0
        try:
            unshare(CLONE_NEWUSER)
        except PermissionError:
            return "refused"
        return "let out"

    assert in_child(act) == "refused"


def test_filters_of_all_machines_jump_to_where_they_should() -> None:
    for machine in seccomp.MACHINES:
        program = seccomp.assembled(machine)
        assert len(program) % 8 == 0 and program[-8:-6] == b"\x06\x00"


def may_mount() -> str:
    unshare(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", "/mnt", "tmpfs", 0)
    return ""


def test_whoever_may_mount_and_become_another_user_has_a_view_for_each_rank(open_folder: Path) -> None:
    """Other tests skip where a machine allows less, so that a view which no longer comes about would not be seen."""
    if os.getuid() != 0 or in_child(may_mount):
        pytest.skip("this machine lets nobody mount, or is not root's")
    found = probe(open_folder)
    assert found.mechanism == Mechanism.USER_AND_NAMESPACE, found.missing


def test_a_machine_that_refuses_namespaces_has_level_1_and_says_why(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root becomes another user")
    monkeypatch.setattr("workers.sandbox.probe.seccomp.problem", lambda: "no filter of system calls is known for m68k")
    found = probe(open_folder)
    if found.mechanism != Mechanism.USER_AND_NAMESPACE:
        pytest.skip(f"this machine has no mounts of its own for a rank: {found.missing}")
    assert found.level == 1 and "m68k" in found.missing[0]

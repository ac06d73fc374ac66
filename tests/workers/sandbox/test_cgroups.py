"""Where the kernel counts what it killed for want of memory, in each version of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.sandbox import cgroups

EVENTS = "low 0\nhigh 3\nmax 12\noom 4\noom_kill 2\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose counter is 7, and without control groups."""
    monkeypatch.setattr(cgroups, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(cgroups, "MACHINE", tmp_path / "vmstat")
    write(tmp_path / "vmstat", "nr_free_pages 1\noom_kill 7\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_2_counts_in_the_own_group(machine: Path) -> None:
    write(machine / "own", "0::/user.slice/job\n")
    write(machine / "cgroup" / "user.slice" / "job" / "memory.events", EVENTS)
    assert cgroups.count_memory_kills() == 2


def test_a_container_sees_its_group_as_the_root(machine: Path) -> None:
    write(machine / "own", "0::/kubepods/pod1\n")
    write(machine / "cgroup" / "memory.events", EVENTS)
    assert cgroups.count_memory_kills() == 2


def test_version_1_counts_in_the_group_of_memory(machine: Path) -> None:
    write(machine / "own", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n")
    write(machine / "cgroup" / "memory" / "a" / "memory.oom_control", CONTROL)
    assert cgroups.count_memory_kills() == 5


def test_without_groups_the_machine_counts(machine: Path) -> None:
    assert cgroups.count_memory_kills() == 7
    (machine / "vmstat").unlink()
    assert cgroups.count_memory_kills() == 0

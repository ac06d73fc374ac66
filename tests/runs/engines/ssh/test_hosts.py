"""The system of an SSH cluster on two real sshd: nodes that are started there by the real command."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState, MachineRequest, Origin, SystemAway, SystemJob
from runs.engines.openssh import client
from runs.engines.ssh import hosts as asking
from runs.engines.ssh.engine import SshSystem
from runs.engines.ssh.hosts import Hosts
from runs.engines.ssh.settings import SshSettings, read_host
from tests.sshd import Sshd, running_hosts

pytestmark = pytest.mark.extended  # sshd, and a process for each question
REQUEST = MachineRequest("a1", "hello", 2, 1, ["join_one", "join_two"])


class Lab:
    def __init__(self, sshd: list[Sshd], folder: Path) -> None:
        self.sshd = sshd
        self.folder = folder

    def system(self, server: str = "http://127.0.0.1:9") -> SshSystem:
        settings = SshSettings(folder=str(self.folder), python=sys.executable)
        lines = [read_host(f"{one.label} slots=2 {one.host_key}") for one in self.sshd]
        hosts = Hosts(lines, self.sshd[0].key, settings.interpreter, settings.folder, "ab12")
        return SshSystem(settings, Origin("ab", "lab", server), hosts)

    def wait_for(self, is_true: Callable[[list[SystemJob]], object]) -> list[SystemJob]:
        deadline = time.monotonic() + 120
        while not is_true(jobs := self.system().jobs()):
            assert time.monotonic() < deadline, jobs
            time.sleep(0.2)
        return jobs

    def left(self) -> list[str]:
        """Return the files and processes on the hosts."""
        files = [str(path) for kind in ("jobs/*/*", "machines/nodes/*") for path in self.folder.glob(kind)]
        for process in psutil.process_iter(["cmdline"]):
            if any(word.startswith(f"{self.folder}/") for word in process.info["cmdline"] or []):
                files.append(" ".join(process.info["cmdline"]))
        return files


@pytest.fixture
def lab(settings: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    settings.HOME = tmp_path / "home"  # type: ignore[attr-defined]
    monkeypatch.setattr(asking, "AWAY_S", 0.0)
    with running_hosts("127.0.0.2", "127.0.0.3") as sshd:
        yield Lab(sshd, tmp_path / "work")
        for socket in list(client._open_sockets):
            client.close(socket)


def test_nodes_are_started_listed_and_leave_nothing(lab: Lab) -> None:
    """The server of these nodes is not there, so that they end with its address in their last words."""
    assert lab.system().submit(REQUEST) == "a1"
    (job,) = lab.system().jobs()
    assert (job.attempt, job.hosts) == ("a1", tuple(one.label for one in lab.sshd))
    (job,) = lab.wait_for(lambda jobs: jobs[0].state == JobState.OVER)
    assert job.end == EndKind.ENDED and "http://127.0.0.1:9" in job.end_sentence, job
    lab.system().cancel("a1")
    assert lab.system().jobs() == [] and lab.left() == []


def test_what_another_control_began_is_found_and_completed(lab: Lab) -> None:
    second = lab.sshd[1]
    second.stop()
    with pytest.raises(SystemAway, match="1 free host with 1 slot of 2 that are needed"):
        lab.system().submit(REQUEST)
    assert lab.left() == []
    second.start()
    lab.system().submit(REQUEST)
    lab.system().submit(REQUEST)
    plans = sorted(path.parent.name for path in lab.folder.glob("jobs/*/*/plan.json"))
    assert plans == ["a1.0", "a1.1"]
    lab.wait_for(lambda jobs: jobs[0].state == JobState.OVER)
    lab.system().cancel("a1")
    assert lab.left() == []


def test_nothing_is_sent_to_a_host_whose_key_changed(lab: Lab) -> None:
    system = lab.system()
    system.jobs()
    for one in lab.sshd:
        one.change_host_key()
    with pytest.raises(SystemAway, match="shows another host key"):
        system.jobs()
    assert lab.system().jobs() == []


def test_an_interpreter_that_is_not_there_is_a_sentence(lab: Lab) -> None:
    hosts = Hosts(lab.system()._hosts.all, lab.sshd[0].key, "/no/such/python", str(lab.folder), "ab12")
    system = SshSystem(
        SshSettings(folder=str(lab.folder), python="/no/such/python"), Origin("ab", "lab", "http://x"), hosts
    )
    with pytest.raises(SystemAway, match=r"/no/such/python failed: .*/no/such/python"):
        system.jobs()

"""The hosts of an SSH cluster as one system: which are chosen, and when a job is begun, running or over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState, MachineRequest, Origin, SystemJob
from runs.engines.openssh import client
from runs.engines.refusals import SystemAway
from runs.engines.ssh import engine as asking
from runs.engines.ssh.engine import Answers, Hosts, SshEngine, SshSystem
from runs.engines.ssh.settings import Host, SshSettings, read_host
from tests.sshd import Sshd, running_hosts
from trainyard.contract.calls import HostAnswer, HostJob, HostJobState

pytestmark = pytest.mark.extended  # sshd, and a process for each question
REQUEST = MachineRequest("a1", "hello", 2, 1, ["join_one", "join_two"])
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcHHQfVXFFvOtDHcXNPTLfkOs4MjrHgqRaVYKxMKZXf"


class Table(Hosts):
    """Hosts whose answers are lists in this process."""

    def __init__(self, *lines: str) -> None:
        super().__init__([read_host(f"{line} {KEY}") for line in lines], Path(), "python", "/here", "ab")
        self.jobs: dict[str, dict[str, HostJob]] = {host.label: {} for host in self.all}
        self.away: set[str] = set()
        self.starts: list[tuple[str, int, str]] = []
        self.cores: list[str | None] = []
        self.breaks_after = 99

    def list(self) -> tuple[Answers, dict[str, str]]:
        here = [host.label for host in self.all if host.label not in self.away]
        answers = {label: HostAnswer(host="h", version="1", jobs=list(self.jobs[label].values())) for label in here}
        return answers, {label: f"{label} is not reached: gone." for label in self.away}

    def start(self, host: Host, job: HostJob, words: Sequence[str], variables: dict[str, str]) -> HostAnswer:
        if host.label in self.away or len(self.starts) >= self.breaks_after:
            raise SystemAway(f"{host.label} is not reached: gone.")
        if job.attempt not in self.jobs[host.label]:
            self.starts.append((host.label, job.machine, variables["TRAINYARD_JOIN"]))
            self.cores.append(variables.get("TRAINYARD_CORES"))
            job.state, job.started_at = HostJobState.RUNNING, 1000.0
            self.jobs[host.label][job.attempt] = job
        return HostAnswer(host="h", version="1", jobs=[])

    def end(self, hosts: Iterable[Host], job: Callable[[Host], HostJob | None]) -> dict[str, str]:
        for host in hosts:
            one = job(host)
            assert one is not None
            if one.state == HostJobState.RUNNING:
                self.finish(host.label, one.attempt, 0)
            else:
                del self.jobs[host.label][one.attempt]
        return {}

    def finish(self, label: str, attempt: str, code: int | None, words: str = "", at: float = 2000.0) -> None:
        job = self.jobs[label][attempt]
        job.state, job.exit_code, job.last_words, job.ended_at = HostJobState.OVER, code, words, at


A, B, C = "me@a", "me@b:2222", "me@c"


@pytest.fixture
def table() -> Table:
    return Table(f"{A} slots=4", B, f"{C} slots=2")


@pytest.fixture
def system(table: Table) -> SshSystem:
    return SshSystem(SshSettings(folder="/here"), Origin("ab", "lab", "http://server"), table)


def request(attempt: str = "a1", machines: int = 2, slots: int = 1) -> MachineRequest:
    return MachineRequest(attempt, "hello", machines, slots, [f"join_{number}" for number in range(machines)])


def test_the_smallest_hosts_that_will_do_are_chosen(system: SshSystem, table: Table) -> None:
    assert system.submit(request()) == "a1"
    assert table.starts == [(B, 0, "join_0"), (C, 1, "- join_1")], "and each gets its own token alone"
    (job,) = system.jobs()
    assert (job.id, job.attempt, job.state, job.hosts) == ("a1", "a1", JobState.RUNNING, (B, C))
    system.submit(request("a2", machines=1, slots=3))
    assert table.starts[-1][0] == A
    with pytest.raises(SystemAway, match="Cluster lab has 0 free hosts with 1 slot of 1 that are needed"):
        system.submit(request("a3", machines=1))


def test_ranks_use_the_cores_that_a_host_gives_them() -> None:
    """Threads follow from them, and sums from threads: hosts that are shared would train other curves than nodes."""
    table = Table(f"{A} cores=3 slots=2", B)
    SshSystem(SshSettings(folder="/here"), Origin("ab", "lab", "http://server"), table).submit(request())
    assert table.cores == [None, "3"]


def test_a_host_that_does_not_answer_is_a_sentence(system: SshSystem, table: Table) -> None:
    table.away = {A}
    with pytest.raises(SystemAway, match=r"1 free host with 2 slots of 2 that are needed\. me@a is not reached: gone"):
        system.submit(request(slots=2))
    table.away = {A, B, C}
    with pytest.raises(SystemAway, match="me@a is not reached"):
        system.jobs()


def test_what_was_begun_is_completed_and_not_repeated(system: SshSystem, table: Table) -> None:
    table.breaks_after = 1
    with pytest.raises(SystemAway):
        system.submit(request())
    (job,) = system.jobs()
    assert (job.state, job.is_incomplete) == (JobState.PENDING, True)
    table.breaks_after = 99
    for _ in range(2):
        system.submit(request())
    assert [one[:2] for one in table.starts] == [(B, 0), (C, 1)]
    assert not system.jobs()[0].is_incomplete


def test_a_job_is_over_once_all_of_its_parts_are(system: SshSystem, table: Table) -> None:
    system.submit(request())
    table.finish(B, "a1", 0)
    assert system.jobs()[0].state == JobState.RUNNING
    table.finish(C, "a1", 0)
    (job,) = system.jobs()
    assert (job.state, job.end, job.is_kept, job.exit_code) == (JobState.OVER, None, True, 0)
    system.cancel("a1")
    assert system.jobs() == [] and system.find("a1") is None


def test_a_node_that_could_not_start_ends_the_others_with_its_words(system: SshSystem, table: Table) -> None:
    system.submit(request())
    table.finish(B, "a1", 1, "The server cannot be reached.", at=1003.0)
    system.jobs()
    (job,) = system.jobs()
    assert (job.state, job.end) == (JobState.OVER, EndKind.ENDED)
    assert job.end_sentence == f"The node on {B} ended with exit code 1: The server cannot be reached."


def test_silence_of_a_host_is_no_end(system: SshSystem, table: Table) -> None:
    system.submit(request())
    table.finish(B, "a1", 0)
    table.away = {C}
    assert system.jobs()[0].state == JobState.RUNNING
    table.away = {B, C}
    assert system.jobs() == []
    with pytest.raises(SystemAway, match="It is not known what runs on me@b:2222, me@c"):
        system.find("a1")
    with pytest.raises(SystemAway):
        system.cancel("a1")


def test_a_host_that_was_started_anew_is_a_node_that_failed(system: SshSystem, table: Table) -> None:
    system.submit(request(machines=1))
    table.finish(B, "a1", None)
    assert system.jobs()[0].end == EndKind.NODE_FAILED
    assert "was gone when the server looked" in system.jobs()[0].end_sentence


def test_a_host_that_was_taken_out_is_unknown_and_is_given_up(system: SshSystem, table: Table) -> None:
    system.submit(request())
    table.all = [host for host in table.all if host.label != C]
    assert system.jobs()[0].state == JobState.RUNNING
    system.cancel("a1")
    system.cancel("a1")
    assert system.find("a1") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("host", "user@host"),
        ("me@host", "the host key of me@host"),
        (f"me@host slots=0 {KEY}", "slots from 1 to"),
        (f"me@host slots=0000010000000 {KEY}", "slots from 1 to"),
        (f"me@host cores=0 {KEY}", "cores from 1 to 4096"),
        (f"me@host gpu=a|b {KEY}", "a kind of GPU"),
        (f"me@host slots=1 {KEY[:40]}", "cut off"),
    ],
)
def test_bad_lines_are_refused_by_name(line: str, words: str) -> None:
    with pytest.raises(ValueError, match="hosts: ") as refused:
        SshEngine().checked({"hosts": [line], "folder": "/here"})
    assert words in str(refused.value)


def test_settings_are_kept_with_their_defaults() -> None:
    kept = SshEngine().checked({"hosts": [f"me@host:22 slots=8 gpu=a100 {KEY} comment"], "folder": "/here"})
    assert read_host(kept["hosts"][0]).gpu == "a100"
    for wrong, words in (
        ({"hosts": [f"me@host {KEY}"] * 2, "folder": "/here"}, "stands there twice"),
        ({"hosts": [], "folder": "/here"}, "from 1 to"),
        ({"hosts": [f"me@host {KEY}"]}, "a folder on each host"),
    ):
        with pytest.raises(ValueError, match=words):
            SshEngine().checked(wrong)


# The system of an SSH cluster on two real sshd: nodes that are started there by the real command.


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

"""A host's jobs with real processes: started once, ended whole, forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from trainyard.contract.base import decode, encode
from trainyard.contract.calls import HostAnswer, HostJob, HostQuestion, HostVerb

pytestmark = pytest.mark.extended  # each question is a process
LEAVES_ONE = (  # a node whose supervisor has a session of its own, and outlives it
    "import os,sys,time\n"
    "if os.fork() == 0:\n    os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)\n"
    "print('The server cannot be reached.', flush=True)\ntime.sleep(float(sys.argv[2]))\nsys.exit(3)\n"
)


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, verb: HostVerb, words: list[str] | None = None, machine: int = 0) -> list[HostJob]:
        job = HostJob(attempt="a1", machine=machine, hosts=["me@a", "me@b"])
        question = HostQuestion(
            verb=verb, folder=str(self.folder), mark="ab", job=job, words=words or [], variables={"TOKEN": "join_x"}
        )
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers.host_jobs"], input=encode(question), capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
        answer = decode(done.stdout, HostAnswer)
        assert not answer.problem
        return answer.jobs

    def wait_for(self, is_true: Callable[[list[HostJob]], object]) -> list[HostJob]:
        deadline = time.monotonic() + 30
        while not is_true(jobs := self.ask(HostVerb.LIST)):
            assert time.monotonic() < deadline, jobs
            time.sleep(0.1)
        return jobs

    def keeper(self) -> psutil.Process:
        return psutil.Process(json.loads((self.folder / "jobs/ab/a1.0/keeper.json").read_text())["pid"])


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for path in tmp_path.glob("jobs/ab/*/keeper.json"):
        try:
            os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
        except ProcessLookupError:
            continue


def node(machine: Machine, seconds: float) -> tuple[list[str], Path]:
    mark = machine.folder / "child"
    return [sys.executable, "-c", LEAVES_ONE, str(mark), str(seconds)], mark


def is_gone(mark: Path) -> bool:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(mark.read_text())):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_node_ends_with_all_that_it_left_and_its_last_words_are_kept(machine: Machine) -> None:
    words, mark = node(machine, 0.5)
    (job,) = machine.ask(HostVerb.START, words)
    assert job.state == "running" and job.started_at
    (job,) = machine.wait_for(lambda jobs: jobs[0].state == "over")
    assert (job.exit_code, job.last_words, job.hosts) == (3, "The server cannot be reached.", ["me@a", "me@b"])
    assert is_gone(mark)
    assert machine.ask(HostVerb.END) == []
    assert not list(machine.folder.glob("jobs/ab/*"))


def test_starting_again_starts_nothing(machine: Machine) -> None:
    words, mark = node(machine, 60)
    machine.ask(HostVerb.START, words)
    keeper = machine.keeper()
    for _ in range(2):
        (job,) = machine.ask(HostVerb.START, words)
    assert job.state == "running" and machine.keeper() == keeper
    assert "join_x" not in " ".join(keeper.cmdline())
    machine.ask(HostVerb.END)
    machine.wait_for(lambda jobs: jobs[0].state == "over")
    assert is_gone(mark)


def test_of_two_starts_at_once_one_starts_a_node(machine: Machine) -> None:
    words, _ = node(machine, 60)
    folder = machine.folder / "jobs/ab/a1.0"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(encode(HostJob(attempt="a1", machine=0, hosts=["me@a", "me@b"])))
    command = [sys.executable, "-P", "-m", "workers.host_jobs.keeper", str(folder), *words]
    both = [subprocess.Popen(command) for _ in range(2)]
    machine.wait_for(lambda jobs: jobs[0].state == "running")
    deadline = time.monotonic() + 20
    while all(one.poll() is None for one in both):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert sum(one.poll() is None for one in both) == 1
    machine.ask(HostVerb.END)
    for one in both:
        assert one.wait(20) == 0


def test_a_job_whose_keeper_was_killed_is_over(machine: Machine) -> None:
    words, _ = node(machine, 600)
    machine.ask(HostVerb.START, words)
    keeper = machine.keeper()
    left = keeper.children(recursive=True)
    keeper.kill()
    (job,) = machine.wait_for(lambda jobs: jobs[0].state == "over")
    assert job.exit_code is None
    for one in left:  # this node watches no pipe: a real one ends by it
        one.kill()


def test_what_cannot_be_started_says_so(machine: Machine) -> None:
    machine.ask(HostVerb.START, ["/no/such/python", "-m", "x"])
    (job,) = machine.wait_for(lambda jobs: jobs[0].state == "over")
    assert (job.exit_code, job.last_words) == (127, "/no/such/python: No such file or directory.")


def test_a_question_that_is_none_is_refused() -> None:
    for text in (
        "",
        "{}",
        '{"verb": "start", "folder": "/x", "mark": "../x"}',
        '{"verb": "end", "folder": "/x", "mark": "ab", "job": {"attempt": "../a", "machine": 0, "hosts": []}}',
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers.host_jobs"], input=text, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "") and "cannot be read" in done.stderr

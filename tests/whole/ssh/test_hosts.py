"""A whole Trainyard and two real sshd: nodes are started on hosts, adopted, ended, and leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dashboard.up.processes import usable_cores
from tests.servers import short_folder
from tests.sshd import Sshd, running_hosts
from tests.up_process import Up
from tests.whole.doctor import doctor
from tests.whole.runs import EngineYard, long_run, small

pytestmark = pytest.mark.extended  # minutes of several processes
CORES = max(1, usable_cores() // 2)  # of each of two hosts, as `up` deals them to its two nodes


class SshYard(EngineYard):
    def __init__(self, up: Up, hosts: list[Sshd], folder: Path) -> None:
        super().__init__(up)
        self.hosts = hosts
        self.folder = folder

    def lines(self) -> list[str]:
        return [f"{host.label} slots=2 cores={CORES} {host.host_key}" for host in self.hosts]

    def make_cluster(self, name: str, **settings: object) -> str:
        key = self.hosts[0].key.read_text()
        settings = {"hosts": self.lines(), "folder": str(self.folder), "ssh_key": key, **settings}
        made = self.post("/clusters", {"name": name, "engine": "ssh", "projects": ["default"], "settings": settings})
        return str(made["id"])

    def wait_until_nothing_is_left(self) -> None:
        """Neither processes nor files: what a job printed goes once the server has read how it ended."""
        self.wait_for(lambda: not node_processes(self.folder), lambda: node_processes(self.folder))
        self.wait_for(lambda: not self.files(), self.files)

    def files(self) -> list[str]:
        return [str(path) for kind in ("jobs/*/*", "machines/nodes/*") for path in self.folder.glob(kind)]


def node_processes(folder: Path) -> list[list[str]]:
    """Return the commands that were started on the hosts and are alive."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(word.startswith(str(folder)) for word in words) and "workers" in " ".join(words):
            found.append(words)
    return found


def node_workers(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "workers.node" in words and "workers.host_jobs.keeper" not in words and f"{folder}/machines" in words:
            found.append(process)
    return found


@pytest.fixture(scope="session")
def yard(running_trainyard: Up) -> Iterator[SshYard]:
    with (
        running_hosts("127.0.0.2", "127.0.0.3") as hosts,
        short_folder("ty-hosts-") as folder,
        SshYard(running_trainyard, hosts, folder) as made,
    ):
        made.make_cluster("lab")
        yield made
        made.stop_what_is_left()
        made.wait_until_nothing_is_left()


@pytest.fixture(autouse=True)
def nothing_of_one_test_holds_up_the_next(yard: SshYard) -> Iterator[None]:
    yield
    yard.stop_what_is_left()


def test_a_run_on_hosts_ends_as_it_does_on_nodes_that_stay(yard: SshYard) -> None:
    there = yard.submit(small("lab"))
    here = yard.submit(small("local"))
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    ours = yard.losses(there)
    assert len(ours) == 40 and ours == yard.losses(here), "bit for bit: each rank has as many threads"
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: not yard.get("/nodes", cluster="lab")["items"], lambda: "a node is left in the list")


def test_stopping_a_run_ends_its_nodes(yard: SshYard) -> None:
    run = yard.submit(long_run("lab"))
    yard.wait_for_step(run, 5)
    assert len(node_workers(yard.folder)) == 2
    yard.end(run)


def test_control_killed_again_and_again_starts_each_node_once(yard: SshYard) -> None:
    run = yard.submit(small("lab", steps=600))
    for _ in range(4):
        time.sleep(0.7)
        yard.kill_control()
        assert len(node_workers(yard.folder)) <= 2
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert len(yard.attempts(run)) == 1
    yard.wait_until_nothing_is_left()


def test_a_run_never_notices_that_the_server_does_not_reach_its_hosts(yard: SshYard) -> None:
    run = yard.submit(long_run("lab"))
    step = yard.wait_for_step(run, 5)["step"]
    for host in yard.hosts:
        host.stop()
    time.sleep(5)
    try:
        assert yard.wait_for_step(run, step + 30)["status"] == "RUNNING"
    finally:
        for host in yard.hosts:
            host.start()
    assert len(yard.attempts(run)) == 1
    yard.end(run)


def test_a_host_that_does_not_answer_is_a_sentence(yard: SshYard) -> None:
    yard.hosts[1].stop()
    try:
        run = yard.submit(small("lab"))
        yard.wait_for_words(run, "is not reached")
        assert yard.hosts[1].label in yard.sentence(run)
        assert "1 free host with 1 slot of 2 that are needed" in yard.sentence(run)
    finally:
        yard.hosts[1].start()
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.sentence(run)
    yard.wait_until_nothing_is_left()


def test_a_host_key_that_changed_is_a_sentence_until_the_new_one_is_entered(yard: SshYard) -> None:
    old = yard.lines()
    yard.hosts[0].change_host_key()
    run = yard.submit(small("lab"))
    yard.wait_for_words(run, "shows another host key")
    assert "ssh-keyscan" in yard.sentence(run)
    cluster = yard.get("/clusters/lab")
    assert (cluster["settings"]["hosts"], cluster["secrets"]) == (old, ["ssh_key"])
    settings = {**cluster["settings"], "hosts": yard.lines()}
    answer = yard.http.patch("/clusters/lab", json={"settings": settings})  # the private key was given for the old host
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "settings.ssh_key")
    settings["ssh_key"] = yard.hosts[0].key.read_text()
    answer = yard.http.patch("/clusters/lab", json={"settings": settings})
    assert answer.status_code == 200 and "PRIVATE KEY" not in answer.text
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.sentence(run)
    yard.wait_until_nothing_is_left()


def test_a_node_that_is_killed_costs_an_attempt_and_leaves_nothing(yard: SshYard) -> None:
    run = yard.submit(long_run("lab"))
    step = yard.wait_for_step(run, 50)["step"]
    node_workers(yard.folder)[0].kill()
    yard.wait_for(lambda: len(yard.attempts(run)) > 1, lambda: str(yard.run(run)), 180)
    yard.wait_for_step(run, step, 180)
    yard.end(run)


def test_a_node_that_cannot_start_fails_the_run_with_its_words(yard: SshYard) -> None:
    yard.make_cluster("astray", server="http://127.0.0.1:9")
    ended = yard.wait_for_end(yard.submit(small("astray")))
    assert ended["status"] == "FAILED"
    assert "before its nodes had joined" in ended["reason"]["sentence"], ended["reason"]
    assert "http://127.0.0.1:9" in ended["reason"]["sentence"], ended["reason"]
    yard.wait_until_nothing_is_left()


def test_the_doctor_looks_at_each_host(yard: SshYard) -> None:
    well = doctor(yard.up, "lab")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert all(host.label in well.stdout for host in yard.hosts)
    yard.make_cluster("keyless", ssh_key="")
    yard.make_cluster("snake", python="/no/such/python")
    for name, step, words in (("keyless", "key", "has no private key yet"), ("snake", "host", "/no/such/python")):
        ill = doctor(yard.up, name)
        assert ill.returncode == 1
        assert f"FAILED  {step}" in ill.stdout and words in ill.stdout, ill.stdout


def test_a_key_file_below_the_home_does_as_well(yard: SshYard) -> None:
    keys = yard.up.home / "keys"
    keys.mkdir(mode=0o700, exist_ok=True)
    (keys / "lab").write_text(yard.hosts[0].key.read_text())
    (keys / "lab").chmod(0o644)
    yard.make_cluster("filed", ssh_key="", ssh_key_file="keys/lab")
    assert "may be read by others: `chmod 600` it" in doctor(yard.up, "filed").stdout
    (keys / "lab").chmod(0o600)
    assert doctor(yard.up, "filed").returncode == 0

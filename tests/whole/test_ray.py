"""A whole Trainyard with a real Ray of two machines: runs, reasons, cancelling, deaths, and what is left of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil
import pytest

from tests.ray_cluster import RayCluster, running_ray
from tests.up_process import Up
from tests.whole.doctor import doctor
from tests.whole.runs import EngineYard, long_run, node_folders, small

# Minutes of several processes; a cluster of Ray takes its time to start on a busy machine.
pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]
TOKEN = "a-token-of-the-tests-0123456789abcdef"


class RayYard(EngineYard):
    def __init__(self, up: Up, ray: RayCluster) -> None:
        super().__init__(up)
        self.ray = ray

    def make_cluster(self, name: str, **settings: object) -> None:
        mine = {"address": self.ray.address, "folder": str(self.ray.shared), "token": TOKEN, "machines": 2}
        body = {"name": name, "engine": "ray", "projects": ["default"], "settings": {**mine, **settings}}
        self.post("/clusters", body)

    def wait_until_nothing_is_left(self) -> None:
        """No group holds machines, and no program of ours runs on them. The actor of an attempt may be read a while."""
        self.wait_for(lambda: not self.ray.groups(), lambda: f"a placement group is left: {self.ray.groups()}")
        self.wait_for(lambda: not [name for name in self.ray.actors() if "." in name], "an actor is left")
        self.wait_for(lambda: not node_programs(self.ray), lambda: f"left: {node_programs(self.ray)}")


def node_programs(ray: RayCluster) -> list[list[str]]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "workers.node" in words and any(str(ray.shared) in word for word in words):
            found.append(words)
    return found


@pytest.fixture(scope="module")
def ray() -> Iterator[RayCluster]:
    with running_ray(token=TOKEN) as made:
        yield made


@pytest.fixture(scope="module")
def yard(ray: RayCluster, running_trainyard: Up) -> Iterator[RayYard]:
    with RayYard(running_trainyard, ray) as made:
        made.make_cluster("rays")
        made.make_cluster("broken", python="/no/such/python")
        yield made
        made.stop_what_is_left()


@pytest.fixture(autouse=True)
def nothing_of_one_test_holds_up_the_next(yard: RayYard) -> Iterator[None]:
    yield
    yard.stop_what_is_left()
    yard.ray.restore(2)


def test_a_run_on_ray_ends_as_it_does_on_nodes_that_stay(yard: RayYard) -> None:
    before = node_folders(yard.ray.shared)
    there = yard.submit(small("rays"))
    here = yard.submit(small("local"))
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert yard.losses(there) == yard.losses(here)
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: node_folders(yard.ray.shared) <= before, "a node's folder is left")
    yard.wait_for(lambda: not yard.get("/nodes", cluster="rays")["items"], "a node is left in the list")


def test_stopping_a_run_gives_its_machines_back(yard: RayYard) -> None:
    run = yard.submit(long_run("rays"))
    yard.wait_for_step(run, 5)
    assert len(yard.ray.groups()) == 1 and len(node_programs(yard.ray)) == 2
    yard.end(run)


@pytest.mark.parametrize("tool", ["group", "actor"])
def test_a_job_that_is_ended_with_rays_own_tools_cancels_the_run_and_says_so(yard: RayYard, tool: str) -> None:
    run = yard.submit(long_run("rays"))
    yard.wait_for_step(run, 5)
    job = yard.ray.groups()[0]
    if tool == "group":
        yard.ray.call(f"ray.util.remove_placement_group(ray.util.get_placement_group({job!r}))")
    else:
        yard.ray.call(f"ray.kill(ray.get_actor({job!r}))")
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED", ended["reason"]
    assert "Ray's own tools" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()


def test_a_run_waits_in_words_and_stopping_it_leaves_nothing(yard: RayYard) -> None:
    hold = (
        "from ray.util.placement_group import placement_group as group; "
        "ray.get(group([{'CPU': 2, 'r2': 0.5}], name='others', lifetime='detached').ready())"
    )
    yard.ray.call(hold)
    try:
        run = yard.submit(small("rays"))
        yard.wait_for_words(run, "(Resources)")
        assert yard.sentence(run).startswith("Waiting for Ray on cluster rays, job trainyard-")
        assert "no further machine of Ray has 1 CPU free; there is room for 1 of 2 now" in yard.sentence(run)
        yard.post(f"/runs/{run}/stop")
        assert yard.wait_for_end(run)["status"] == "CANCELLED"
        yard.wait_for(lambda: yard.ray.groups() == ["others"], "its group is left")
    finally:
        yard.ray.call("ray.util.remove_placement_group(ray.util.get_placement_group('others'))")
    yard.wait_until_nothing_is_left()


def test_a_machine_that_dies_costs_an_attempt_and_the_run_goes_on(yard: RayYard) -> None:
    run = yard.submit(long_run("rays"))
    yard.wait_for_step(run, 30)
    yard.ray.kill("r2")
    try:
        yard.wait_for(lambda: yard.attempts(run)[0]["ended_at"], "the attempt did not end")
        yard.wait_for_words(run, "(Infeasible)", 90)
    finally:
        yard.ray.restore(2)
    yard.wait_for(lambda: len(yard.attempts(run)) >= 2, "no second attempt")
    step = int(yard.run(run)["step"] or 0)
    yard.wait_for_step(run, step + 20, 120)
    first = yard.attempts(run)[0]
    assert first["cause"]["class"] in ("node-lost", "interrupted"), first
    yard.end(run)


def test_a_machine_that_is_taken_back_gives_notice_and_the_run_goes_on_elsewhere(yard: RayYard) -> None:
    run = yard.submit(long_run("rays"))
    step = int(yard.wait_for_step(run, 30)["step"])
    yard.ray.drain("r2", seconds=120)
    yard.wait_for(lambda: yard.attempts(run)[0]["ended_at"], "the attempt did not end", 90)
    assert yard.attempts(run)[0]["cause"]["class"] == "preempted", yard.attempts(run)[0]
    yard.ray.start_machine("r3")
    yard.wait_for(lambda: len(yard.attempts(run)) >= 2, lambda: yard.sentence(run))
    yard.wait_for_step(run, step + 20, 180)
    yard.end(run)


def test_control_killed_again_and_again_submits_one_job(yard: RayYard) -> None:
    run = yard.submit(small("rays", steps=400))
    for _ in range(3):
        time.sleep(1)
        yard.kill_control()
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()
    assert len(yard.attempts(run)) == 1


def test_a_program_that_is_not_there_fails_the_run_with_what_to_do(yard: RayYard) -> None:
    run = yard.submit(small("broken"))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "FAILED"
    assert "/no/such/python: No such file or directory" in ended["reason"]["sentence"], ended["reason"]
    assert "before its nodes had joined. `trainyard doctor --cluster broken`" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()


def test_the_doctor_finds_a_cluster_ready_and_says_what_to_mend(yard: RayYard) -> None:
    well = doctor(yard.up, "rays")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert "A short job ran on 2 of 2 machines" in well.stdout
    yard.make_cluster("nobody", address="127.0.0.1:1")
    yard.make_cluster("stranger", token="another-token-0123456789abcdef01234")
    for name, step, words in (
        ("nobody", "connection", "Connection refused"),
        ("stranger", "connection", "cannot be asked"),
        ("broken", "job", "/no/such/python"),
    ):
        ill = doctor(yard.up, name)
        assert ill.returncode == 1
        assert f"FAILED  {step}" in ill.stdout and words in ill.stdout, ill.stdout


def test_a_cluster_is_reached_through_rays_client_too(yard: RayYard) -> None:
    yard.make_cluster("afar", address=f"ray://127.0.0.1:{yard.ray.client_port}")
    run = yard.submit(small("afar"))
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()


def test_a_head_that_dies_is_said_in_words_and_a_new_one_takes_the_run(yard: RayYard) -> None:
    """Without storage of its own, Ray ends with its head: the new one knows nothing, and neither do its machines."""
    run = yard.submit(long_run("rays"))
    step = int(yard.wait_for_step(run, 30)["step"])
    for name in list(yard.ray.machines):
        yard.ray.kill(name)
    yard.wait_for(lambda: yard.attempts(run)[0]["ended_at"], "the attempt did not end", 120)
    yard.wait_for_words(run, "cannot be asked", 90)
    assert "Ray at 127.0.0.1:" in yard.sentence(run)
    yard.ray.start(2)
    yard.wait_for_step(run, step + 40, 180)
    yard.end(run)

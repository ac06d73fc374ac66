"""What Slurm limits and places: time, generic resources, partitions and accounts."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import httpx
import pytest

from tests.up_process import ROOT
from tests.whole.runs import Document, example, long_run, small
from tests.whole.slurm.conftest import SlurmYard

pytestmark = pytest.mark.extended  # minutes of several processes


def with_resources(document: Document, **resources: object) -> Document:
    return {**document, "resources": {**document["resources"], **resources}}


@pytest.mark.timeout(600)
def test_a_run_longer_than_its_time_limit_goes_on_in_another_job_bit_for_bit(yard: SlurmYard) -> None:
    """Slurm sends the notice up to a minute early: it looks at limits once in a while."""
    yard.make_cluster("limited", time_limit="2m", notice="30s")
    document = {**example("hello-gpt", steps=9_000, batch_size=8), "checkpoint": {"every_steps": 100_000}}
    run = yard.submit({**document, "cluster": "limited"})
    undisturbed = yard.submit(document)
    yard.wait_for(lambda: len(yard.attempts(run)) > 1, lambda: str(yard.run(run)), 240)
    first = yard.attempts(run)[0]
    assert first["cause"]["class"] == "preempted", first
    saved = max(one["step"] for one in yard.get(f"/runs/{run}/checkpoints")["items"])
    yard.wait_for_step(run, saved + 20, 180)
    yard.wait_for_step(undisturbed, saved + 20, 180)
    for one in (run, undisturbed):
        yard.post(f"/runs/{one}/stop")
        yard.wait_for_end(one)
    ours, theirs = yard.losses(run), yard.losses(undisturbed)
    both = set(ours) & set(theirs)
    assert max(both) > saved > 0 and {step: ours[step] for step in both} == {step: theirs[step] for step in both}
    states = yard.slurm.call("squeue", "--states=all", "-h", "-o", "%j %T")
    assert re.search(rf"{first['id']} COMPLETED", states), "it ended before Slurm ended it"
    yard.wait_until_nothing_is_left()


def test_generic_resources_are_asked_for_and_placed(yard: SlurmYard) -> None:
    yard.make_cluster("gpus", gres="gpu:a100", slots=2, machines=1)
    run = yard.submit(with_resources(long_run("gpus"), nodes=1, processes_per_node=2))
    yard.wait_for_step(run, 5)
    shown = yard.slurm.call("scontrol", "show", "job", yard.job_of(run))
    assert "gpu:a100:2" in shown, shown
    machine = yard.slurm.machines_of(yard.job_of(run))[0]
    assert "gpu:a100:2(IDX:0-1)" in yard.slurm.call("sinfo", "-h", "-N", "-n", machine, "-O", "GresUsed:60")
    second = yard.submit(with_resources(small("gpus"), nodes=1, processes_per_node=2))
    yard.wait_for(lambda: "1 run" in yard.sentence(second) or "free" in yard.sentence(second), "it does not wait")
    yard.post(f"/runs/{run}/stop")
    assert yard.wait_for_end(run)["status"] == "CANCELLED"
    assert yard.wait_for_end(second)["status"] == "SUCCEEDED", yard.sentence(second)
    yard.wait_until_nothing_is_left()


def test_a_kind_of_gpu_that_no_machine_has_is_a_sentence(yard: SlurmYard) -> None:
    yard.make_cluster("rare", gres="gpu:h900", machines=1)
    ended = yard.wait_for_end(yard.submit(with_resources(small("rare"), nodes=1)))
    assert ended["status"] == "FAILED"
    assert "Slurm refused the job" in ended["reason"]["sentence"], ended["reason"]
    assert "doctor --cluster rare" in ended["reason"]["sentence"]


def test_a_partition_that_vanishes_fails_the_next_run_with_what_to_do(yard: SlurmYard) -> None:
    yard.slurm.call("scontrol", "create", "PartitionName=passing", "Nodes=ALL", "State=UP")
    yard.make_cluster("passing", partition="passing")
    first = yard.wait_for_end(yard.submit(small("passing")))
    assert first["status"] == "SUCCEEDED", first["reason"]
    yard.wait_until_nothing_is_left()

    def is_gone() -> bool:
        yard.slurm.call("scontrol", "delete", "PartitionName=passing")
        return "passing" not in yard.slurm.call("sinfo", "-h", "-o", "%P")

    yard.wait_for(is_gone, "it is used")
    ended = yard.wait_for_end(yard.submit(small("passing")))
    assert ended["status"] == "FAILED"
    assert "Its partition is 'passing': change that where cluster passing" in ended["reason"]["sentence"]


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("closed", {"partition": "closed", "account": "chemistry"}, "Its account is 'chemistry': change that"),
        ("short", {"partition": "short", "time_limit": "4h"}, "Its time_limit is '4h': change that"),
        ("crowd", {"partition": "short", "machines": 9, "time_limit": "1m", "notice": "10s"}, "doctor --cluster crowd"),
    ],
)
def test_what_slurm_refuses_names_the_setting(
    yard: SlurmYard, name: str, settings: dict[str, object], words: str
) -> None:
    yard.make_cluster(name, **settings)
    nodes = 9 if name == "crowd" else 2
    ended = yard.wait_for_end(yard.submit(with_resources(small(name, batch_size=9 * 4), nodes=nodes)))
    assert ended["status"] == "FAILED"
    assert words in ended["reason"]["sentence"], ended["reason"]
    yard.wait_until_nothing_is_left()


def post_form(person: httpx.Client, path: str, **values: object) -> httpx.Response:
    """Read a page and send its form."""
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', person.get(path).text)
    assert token is not None, person.get(path).text
    data = {**values, "csrfmiddlewaretoken": token[1]}
    return person.post(path, data=data, headers={"Referer": str(person.base_url)})


@pytest.mark.timeout(600)
def test_the_example_runs_on_a_cluster_that_was_made_with_the_form(yard: SlurmYard) -> None:
    environment = {**os.environ, "TRAINYARD_HOME": str(yard.up.home)}
    command = [sys.executable, "-m", "dashboard.sign_in"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    settings = {
        "machines": "2", "folder": str(yard.slurm.shared), "slurm_conf": str(yard.slurm.conf), "slots": "1",
        "cpus_per_slot": "1", "time_limit": "1h", "notice": "2m", "partition": "main", "ssh_port": "22",
        "options": "nice=1",
    }  # fmt: skip
    values = {f"settings.{name}": value for name, value in settings.items()}
    with httpx.Client(base_url=yard.up.url, follow_redirects=True, timeout=60) as person:
        post_form(person, done.stdout.strip().splitlines()[-1])  # the link asks for a click
        answer = post_form(person, "/nodes/clusters/new/?engine=slurm", name="formed", projects=["default"], **values)
    assert answer.status_code == 200 and "formed" in answer.text, answer.text
    ended = yard.wait_for_end(yard.submit({**example("hello-gpt"), "cluster": "formed"}), 500)
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    assert ended["summary"]["val/loss"]["last"] < 3.0
    yard.wait_until_nothing_is_left()

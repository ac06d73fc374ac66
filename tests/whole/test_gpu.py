"""A whole Trainyard on a machine with an NVIDIA GPU: what its node finds there, runs and their plans, a killed rank,
and scripts of torchrun. Skipped, and said to be, elsewhere; `make gpu` has it beside the tests of ranks and the
figures.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Document, Yard, example, points, until
from tests.whole.test_command_line import trainyard

NVIDIA_SMI = shutil.which("nvidia-smi")
pytestmark = pytest.mark.skipif(NVIDIA_SMI is None, reason="there is no NVIDIA driver (nvidia-smi) on this machine")
NUM_STEPS = 400
ON_ONE = {"nodes": 1, "processes_per_node": 1, "accelerator": "gpu"}
MODEL = {"layers": 8, "width": 512, "heads": 8, "context": 256}
SCRIPTS = ("ddp", "fsdp2", "accelerate", "lightning")


def driver_says(*fields: str) -> list[str]:
    """Return what nvidia-smi says of the first GPU."""
    words = [str(NVIDIA_SMI), "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return [value.strip() for value in said.splitlines()[0].split(",")]


def gpu_nodes(yard: Yard) -> list[dict[str, Any]]:
    return [node for node in yard.get("/nodes")["items"] if node["inventory"]["gpus"]]


def on_gpu(name: str, **sections: Any) -> Document:
    spec = example("hello-gpt", steps=NUM_STEPS, batch_size=32, validate_every_steps=100)
    spec["task"]["model"] = MODEL
    return spec | {"name": name, "resources": ON_ONE} | sections


@pytest.fixture(scope="module")
def running_up() -> Iterator[Up]:
    """One with a single node, which has the GPU: of several nodes with fewer GPUs all are CPU nodes."""
    with short_folder("ty-gpu-") as folder:
        up = Up(new_home(folder), NODES="1")
        try:
            up.wait_until_said("Nodes in contact")
            yield up
        finally:
            up.close()


@pytest.fixture
def yard(running_up: Up) -> Iterator[Yard]:
    with Yard(running_up) as one:
        yield one
        one.stop_what_is_left()


@pytest.fixture(scope="module")
def undisturbed(running_up: Up) -> Document:
    """A run that nothing happened to."""
    with Yard(running_up) as yard:
        run = yard.wait_for_end(yard.submit(on_gpu("undisturbed")))
    assert run["status"] == "SUCCEEDED", run["reason"]
    return run


def test_a_node_has_the_gpu_that_the_driver_names(yard: Yard) -> None:
    name, uuid, memory_mib, driver = driver_says("name", "uuid", "memory.total", "driver_version")
    (node, *_) = gpu_nodes(yard)
    gpu = node["inventory"]["gpus"][0]
    assert (gpu["name"], gpu["uuid"], node["inventory"]["driver"]) == (name, uuid, driver)
    assert abs(gpu["memory_bytes"] / 2**20 - float(memory_mib)) < 1


def test_its_health_is_the_drivers_while_a_run_trains(yard: Yard) -> None:
    run = yard.submit(on_gpu("busy") | {"train": {"steps": 100_000, "batch_size": 64}})
    yard.wait_for_step(run, 20)

    def said() -> dict[str, Any]:
        found: dict[str, Any] = gpu_nodes(yard)[0]["health"]["gpus"][0]
        return found

    until(lambda: (said()["utilization_percent"] or 0) > 0)
    health = said()
    used_mib, celsius, most_watts = map(float, driver_says("memory.used", "temperature.gpu", "power.limit"))
    assert abs(health["memory_used_bytes"] / 2**20 - used_mib) < 1_024, (health, used_mib)
    assert abs(health["temperature_c"] - celsius) < 15, (health, celsius)
    assert 0 < health["power_w"] <= 1.1 * most_watts, "it swings by hundreds of watts from second to second"
    yard.post(f"/runs/{run}/stop")
    assert yard.wait_for_end(run)["status"] == "CANCELLED"


def test_a_killed_rank_goes_on_with_the_losses_of_one_that_was_not(yard: Yard, undisturbed: Document) -> None:
    run = yard.submit(on_gpu("killed", checkpoint={"every_steps": 50}))
    yard.wait_for_step(run, 120)
    (placement,) = yard.attempts(run)[-1]["placements"]
    os.kill(placement["ranks"][0]["pid"], signal.SIGKILL)
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), ended["reason"]
    expected, found = (points(yard, one, "train/loss") for one in (undisturbed["id"], run))
    assert found.keys() == expected.keys() and len(found) == NUM_STEPS
    # Not to the bit: attention's backward pass adds in any order on a GPU, in two undisturbed runs, too.
    apart = {step: abs(found[step] / expected[step] - 1) for step in found}
    print(f"losses differ by {max(apart.values()):.1e} at most")
    assert max(apart.values()) < 2e-2


def test_a_plan_says_what_a_gpu_holds(yard: Yard, undisturbed: Document) -> None:
    plan = yard.get(f"/runs/{undisturbed['id']}/plan")
    (predicted,), (held,) = plan["predicted"]["memory"], plan["measured"]["memory"].values()
    assert predicted["low"] <= held <= predicted["high"], (predicted, held)
    print(f"step: {plan['measured']['step_time']['total']} s, predicted {plan['predicted']['step_time']}")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_torchrun_trains_on_the_gpu(running_up: Up, yard: Yard, name: str) -> None:
    """One rank joins a group of NCCL; ``fsdp2`` shards over it, and saves."""
    changes = ("resources.nodes=1", "resources.accelerator=gpu", "task.distributed=true")
    words = [word for change in changes for word in ("--set", change)]
    submitted = trainyard(running_up, "submit", f"examples/{name}.yaml", *words, "--wait")
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    run = yard.run(submitted.stdout.strip())
    assert run["status"] == "SUCCEEDED" and run["summary"]["system/gpu_memory_bytes"]["max"] > 0

"""One training by each launcher that the product has: what is launched, on which machines, and what a run of it gives.

``training/train.py`` is the training. The test of `make systems` compares the losses, `make bench ARGS=launchers` the
seconds until the first step and from a kill to the next new one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.browser.conftest import packed
from tests.kube.api_server import running_kubernetes
from tests.ray_cluster import running_ray
from tests.servers import short_folder
from tests.slurm import running_slurm
from tests.sshd import running_hosts
from tests.systems.scripts import LIMIT_S
from tests.up_process import ROOT
from tests.whole.runs import FINAL, Document, Yard
from tests.whole.slurm.conftest import SlurmYard
from tests.whole.ssh.test_hosts import SshYard
from tests.whole.test_kubernetes import KubernetesYard
from tests.whole.test_ray import TOKEN, RayYard

CODE = Path(__file__).parent / "training"
STEPS_BEFORE_KILL = 10
PAUSE_S = 0.02  # between the steps of a run that is killed: it trains little again
MACHINES = 4  # of a cluster, of which a run takes two: a restart need not wait until its own are given back
Machines = Callable[[Yard], AbstractContextManager[str]]


@contextmanager
def local(yard: Yard) -> Iterator[str]:
    yield "local"


@contextmanager
def slurm(yard: Yard) -> Iterator[str]:
    with running_slurm(MACHINES) as made, SlurmYard(yard.up, made) as one:
        one.make_cluster("one-slurm", partition="main", machines=MACHINES)
        yield "one-slurm"
        one.wait_until_nothing_is_left()


@contextmanager
def kubernetes(yard: Yard) -> Iterator[str]:
    with running_kubernetes() as made, KubernetesYard(yard.up, made) as one:
        one.make_cluster("one-kubernetes", machines=MACHINES)
        yield "one-kubernetes"
        one.wait_until_nothing_is_left()


@contextmanager
def ssh(yard: Yard) -> Iterator[str]:
    with (
        running_hosts(*(f"127.0.0.{number}" for number in range(2, 2 + MACHINES))) as hosts,
        short_folder("ty-hosts-") as folder,
        SshYard(yard.up, hosts, folder) as one,
    ):
        one.make_cluster("one-ssh")
        yield "one-ssh"
        one.wait_until_nothing_is_left()


@contextmanager
def ray(yard: Yard) -> Iterator[str]:
    with running_ray(token=TOKEN) as made, RayYard(yard.up, made) as one:
        one.make_cluster("one-ray", machines=MACHINES)
        yield "one-ray"
        one.wait_until_nothing_is_left()


@contextmanager
def deepspeed(yard: Yard) -> Iterator[str]:
    if shutil.which("g++") is None:
        pytest.skip("DeepSpeed compiles its operators: this machine has no g++")
    yield "local"


@contextmanager
def spark(yard: Yard) -> Iterator[str]:
    if not (ROOT / "examples/spark.yaml").exists():
        pytest.skip("there is no examples/spark.yaml yet")
    if shutil.which("java") is None:
        pytest.skip("Spark needs java (Debian: apt-get install openjdk-17-jre-headless)")
    yield "local"


@dataclass(frozen=True)
class Launcher:
    """``words`` are those of train.py, ``sections`` of the spec what differs from torchrun's, ``task`` of that one."""

    name: str
    ran_on: str
    words: tuple[str, ...] = ("torchrun",)
    task: Document = field(default_factory=dict)
    sections: Document = field(default_factory=dict)
    machines: Machines = local
    is_timed: bool = True  # False: another one starts in the same way


def needs(*requirements: str) -> Document:
    return {"environment": {"requirements": list(requirements), "inherit": True}}


TWO_NODES = "two nodes of this machine"
DEEPSPEED = needs("deepspeed==0.19.8")
SPARK = needs("pyspark==4.3.0", "pandas<3", "pyarrow")
LAUNCHERS = [
    Launcher("torchrun", TWO_NODES),
    Launcher("MPI", f"{TWO_NODES}, mpi4py 4.1.2 over MPICH 5.0.2", ("mpi",), {"launch": "mpi"},
             needs("mpi4py==4.1.2", "mpich==5.0.2")),
    Launcher("DeepSpeed, ZeRO 0", f"{TWO_NODES}, DeepSpeed 0.19.8", ("deepspeed", "--stage", "0"),
             sections=DEEPSPEED, machines=deepspeed, is_timed=False),
    Launcher("DeepSpeed, ZeRO 1", f"{TWO_NODES}, DeepSpeed 0.19.8", ("deepspeed", "--stage", "1"),
             sections=DEEPSPEED, machines=deepspeed),
    Launcher("Accelerate", TWO_NODES, ("accelerate",)),
    Launcher("Lightning", TWO_NODES, ("lightning",)),
    Launcher("Ray Train", "one node, two workers of a Ray 2.60.0 that the script starts", ("ray",),
             sections={"resources": {"nodes": 1, "accelerator": "cpu"}, **needs("ray[train]==2.60.0")}),
    Launcher("Slurm", "a real Slurm of four slurmd on this machine", machines=slurm),
    Launcher("Kubernetes", "a stand-in for its API server, pods as processes", machines=kubernetes),
    Launcher("SSH", "four real sshd on this machine", machines=ssh),
    Launcher("Ray cluster", "a real Ray of a head and two machines on this machine", machines=ray),
    Launcher("Spark", f"{TWO_NODES}, Spark 4.3.0", ("spark",), {"launch": "spark"}, SPARK, spark),
]  # fmt: skip


def submit(yard: Yard, launcher: Launcher, cluster: str, *words: str) -> str:
    stored = yard.http.post("/bundles", content=packed(CODE))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "arguments": [*launcher.words, *words], "code": {"sha256": stored.json()["sha256"]}}
    if "environment" in launcher.sections:  # it inherits what is installed for the nodes, and their own code is not
        task["environment"] = {"PYTHONPATH": str(ROOT)}
    return yard.submit({
        "name": f"one training by {launcher.name}", "cluster": cluster, "task": {**task, **launcher.task},
        "resources": {"nodes": 2, "accelerator": "cpu"}, "restarts": {"max": 3}, **launcher.sections,
    })  # fmt: skip


def points(yard: Yard, run_id: str) -> list[tuple[int, int, float, float]]:
    """Return attempt, step, Unix seconds and loss of each point, what was trained again too."""
    data = yard.get(f"/runs/{run_id}/series/data", name="train/loss", points=10_000, attempts="all")
    return [
        (one["attempt"], *point)
        for one in data["series"]
        for point in zip(one["step"], one["time"], one["value"], strict=True)
    ]


def curve(yard: Yard, launcher: Launcher, cluster: str, steps: int) -> list[float]:
    """Train to the end, and return the loss of each step."""
    run_id = submit(yard, launcher, cluster, "--steps", str(steps))
    ended = yard.wait_for_end(run_id, LIMIT_S)
    assert ended["status"] == "SUCCEEDED", (ended["reason"], last_words(yard, run_id))
    found = {step: loss for _, step, _, loss in points(yard, run_id)}
    assert sorted(found) == list(range(1, steps + 1)), sorted(found)
    return [found[step] for step in sorted(found)]


@dataclass(frozen=True)
class Times:
    start_s: float  # from the request to the point of the first step
    restart_s: float  # from SIGKILL of a rank to the point of the next new step
    steps_again: int


def times(yard: Yard, launcher: Launcher, cluster: str) -> Times:
    """Launch, kill a rank once it trains, wait until it is further than before, and stop."""
    asked_at = time.time()
    run_id = submit(yard, launcher, cluster, "--steps", "1000000", "--pause", str(PAUSE_S))
    wait(yard, run_id, lambda: any(step >= STEPS_BEFORE_KILL for _, step, _, _ in points(yard, run_id)), "step 10")
    victim = rank_process(yard, run_id, launcher)
    killed_at = time.time()
    os.kill(victim, signal.SIGKILL)
    new: list[float] = []
    last = 0

    def goes_on() -> bool:
        nonlocal last
        found = points(yard, run_id)
        first = min(attempt for attempt, _, _, _ in found)
        last = max(step for attempt, step, _, _ in found if attempt == first)
        new[:] = [at for attempt, step, at, _ in found if attempt > first and step > last]
        return bool(new)

    wait(yard, run_id, goes_on, "new step after a kill")
    started_at = min(at for _, _, at, _ in points(yard, run_id))
    yard.post(f"/runs/{run_id}/stop")
    yard.wait_for_end(run_id)
    return Times(started_at - asked_at, min(new) - killed_at, last)


def wait(yard: Yard, run_id: str, is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        run = yard.run(run_id)
        assert run["status"] not in FINAL, (what, run["status"], run["reason"], last_words(yard, run_id))
        assert time.monotonic() < deadline, (what, run["status"], run["reason"], last_words(yard, run_id))
        time.sleep(0.05)


def last_words(yard: Yard, run_id: str) -> list[str]:
    return [one["text"] for one in yard.get(f"/runs/{run_id}/logs", limit=100, tail=True)["items"]][-30:]


def rank_process(yard: Yard, run_id: str, launcher: Launcher) -> int:
    """Return the process that trains as the last rank. Ray's and Spark's are below the run's own ranks."""
    found: dict[int, int] = {}

    def is_reported() -> bool:
        ranks = [rank for place in yard.attempts(run_id)[-1]["placements"] for rank in place["ranks"]]
        found.update({rank["rank"]: rank["pid"] for rank in ranks if rank["pid"]})
        return bool(found)

    wait(yard, run_id, is_reported, "process of a rank")
    pid = found[max(found)]
    is_worker = {"Ray Train": is_ray_worker, "Spark": is_last_of_spark}.get(launcher.name)
    if is_worker is not None:
        return last_below(list(found.values()), is_worker)
    return process_in_a_pod(pid) if launcher.machines is kubernetes else pid


def last_below(pids: list[int], is_wanted: Callable[[psutil.Process], bool]) -> int:
    workers = []
    for process in (one for pid in pids for one in psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            if is_wanted(process):
                workers.append(process.pid)
    return workers[-1]


def is_ray_worker(process: psutil.Process) -> bool:
    return "TrainWorker" in " ".join(process.cmdline())


def is_last_of_spark(process: psutil.Process) -> bool:
    """Whether it is of rank 1 in the torchrun of a Spark task. Its own processes inherit the variables of a rank."""
    return "train.py" in " ".join(process.cmdline()) and process.environ().get("RANK") == "1"


def process_in_a_pod(number: int) -> int:
    """Return the process that has the number in the namespace of a pod, which this process has started. Where both pods
    have one, each is a rank."""
    for process in psutil.Process().children(recursive=True):
        with suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            numbers = re.search(r"^NSpid:(.*)$", status, re.MULTILINE)
            if numbers and numbers[1].split()[1:2] == [str(number)]:
                return process.pid
    raise AssertionError(f"no pod has a process {number}")

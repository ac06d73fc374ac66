"""A whole Trainyard with a stand-in for Kubernetes whose pods are processes: runs, reasons, faults, what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kube.api_server import NAMESPACE, Kubernetes, running_kubernetes
from tests.up_process import Up
from tests.whole.doctor import doctor
from tests.whole.runs import EngineYard, long_run, small

pytestmark = pytest.mark.extended  # minutes of several processes


class KubernetesYard(EngineYard):
    patience_s = 240.0

    def __init__(self, up: Up, kubernetes: Kubernetes) -> None:
        super().__init__(up)
        self.kubernetes = kubernetes

    def make_cluster(self, name: str, **settings: object) -> None:
        made = {
            "image": "trainyard:1",
            "namespace": NAMESPACE,
            "kubeconfig": str(self.kubernetes.kubeconfig),
            "folder": str(self.kubernetes.folder / "mounted"),
            "claim": "shared",
            "machines": 2,
            "notice": "20s",
            **settings,
        }
        self.post("/clusters", {"name": name, "engine": "kubernetes", "projects": ["default"], "settings": made})

    def wait_until_nothing_is_left(self) -> None:
        self.wait_for(lambda: not self.kubernetes.names(), lambda: f"left: {self.kubernetes.names()}")

    def job(self) -> str:
        """Return the name of the job that is there."""
        self.wait_for(lambda: self.kubernetes.names("jobs"), "no job")
        return self.kubernetes.names("jobs")[-1].partition("/")[2]


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[Kubernetes]:
    with running_kubernetes() as made:
        yield made


@pytest.fixture(scope="module")
def yard(kubernetes: Kubernetes, running_trainyard: Up) -> Iterator[KubernetesYard]:
    with KubernetesYard(running_trainyard, kubernetes) as made:
        made.make_cluster("pods")
        yield made
        made.stop_what_is_left()


@pytest.fixture(autouse=True)
def nothing_of_one_test_holds_up_the_next(yard: KubernetesYard) -> Iterator[None]:
    yield
    yard.stop_what_is_left()


def test_a_run_in_pods_ends_as_it_does_on_nodes_that_stay(yard: KubernetesYard) -> None:
    there = yard.submit(small("pods"))
    here = yard.submit(small("local"))
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert yard.losses(there) == yard.losses(here)
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: not yard.get("/nodes", cluster="pods")["items"], "a node is left in the list")


def test_kubectl_delete_job_cancels_the_run_and_says_so(yard: KubernetesYard) -> None:
    run = yard.submit(long_run("pods"))
    yard.wait_for_step(run, 5)
    yard.kubernetes.delete_job(yard.job())
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED", ended["reason"]
    assert "was deleted with Kubernetes' own tools (`kubectl delete job`)" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()


def test_an_eviction_of_one_pod_saves_a_checkpoint_and_another_job_goes_on(yard: KubernetesYard) -> None:
    run = yard.submit(long_run("pods"))
    step = int(yard.wait_for_step(run, 30)["step"])
    yard.kubernetes.evict(yard.kubernetes.pods()[0])
    yard.wait_for_attempt(run, 2, step + 5)
    yard.wait_for(lambda: yard.attempts(run)[1]["offered"], "attempt 2 has no checkpoint to go on from")
    first, second = yard.attempts(run)
    assert first["cause"]["class"] == "preempted" and "evicted it" in first["cause"]["sentence"], first["cause"]
    assert second["offered"][0]["step"] >= step, "it saved when it was asked to, and not at the last 20 steps alone"
    yard.end(run)


def test_a_pod_that_uses_too_much_memory_fails_in_words(yard: KubernetesYard) -> None:
    run = yard.submit(long_run("pods"))
    yard.wait_for_step(run, 5)
    yard.kubernetes.kill_for_memory(yard.kubernetes.pods()[0])
    yard.wait_for(lambda: yard.attempts(run)[0]["ended_at"], "the attempt did not end")
    first = yard.attempts(run)[0]
    assert "OOMKilled" in first["cause"]["sentence"], first["cause"]
    yard.end(run)


def test_a_run_never_notices_that_the_api_server_is_away(yard: KubernetesYard) -> None:
    run = yard.submit(long_run("pods"))
    yard.wait_for_step(run, 5)
    yard.kubernetes.faults.is_away = True
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            now = yard.run(run)
            assert now["status"] == "RUNNING", now["reason"]
            time.sleep(1)
    finally:
        yard.kubernetes.faults.is_away = False
    assert yard.wait_for_step(run, now["step"] + 20)["status"] == "RUNNING"
    assert len(yard.attempts(run)) == 1
    yard.end(run)


def test_a_run_waits_in_words_and_stopping_it_leaves_nothing(yard: KubernetesYard) -> None:
    faults = yard.kubernetes.faults
    faults.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available"
    try:
        run = yard.submit(small("pods"))
        yard.wait_for_words(run, "no machine takes it: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
        assert yard.sentence(run).startswith("Waiting for Kubernetes on cluster pods, job trainyard-")
        faults.unschedulable, faults.image = "", 'pull access denied for "trainyard:1"'
        yard.wait_for_words(run, "its image cannot be pulled: pull access denied")
        faults.is_away = True
        yard.wait_for_words(run, "Kubernetes does not answer")
        faults.is_away = False
        yard.wait_for_words(run, "its image cannot be pulled")
        yard.end(run)
    finally:
        faults.unschedulable, faults.image, faults.is_away = "", "", False


def test_a_quota_holds_the_run_in_words_until_there_is_room(yard: KubernetesYard) -> None:
    yard.kubernetes.faults.quota = "team, requested: requests.cpu=2, used: requests.cpu=8, limited: requests.cpu=8"
    try:
        run = yard.submit(small("pods"))
        yard.wait_for_words(run, "the namespace's quota does not allow it")
    finally:
        yard.kubernetes.faults.quota = ""
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()


def test_what_is_refused_fails_the_run_with_what_to_do(yard: KubernetesYard) -> None:
    yard.kubernetes.faults.refusal = (403, "Forbidden", 'User "x" cannot create resource "jobs" in API group "batch"')
    try:
        ended = yard.wait_for_end(yard.submit(small("pods")))
    finally:
        yard.kubernetes.faults.refusal = None
    assert ended["status"] == "FAILED"
    assert "cannot create resource" in ended["reason"]["sentence"] and "trainyard doctor" in ended["reason"]["sentence"]
    assert not yard.kubernetes.names()


def test_control_killed_again_and_again_submits_one_job(yard: KubernetesYard) -> None:
    yard.kubernetes.requests.clear()
    run = yard.submit(small("pods", steps=400))
    for _ in range(3):
        time.sleep(0.7)
        yard.kill_control()
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()
    assert len(yard.attempts(run)) == 1


def test_an_answer_that_is_lost_in_the_middle_of_a_submission_costs_nothing(yard: KubernetesYard) -> None:
    yard.kubernetes.faults.loses_answers = True
    try:
        run = yard.submit(small("pods"))
        yard.wait_for_words(run, "Kubernetes does not answer")
        job = yard.job()
        assert not yard.kubernetes.names("pods"), "a job that is not complete starts nothing"
    finally:
        yard.kubernetes.faults.loses_answers = False
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert job == f"trainyard-{yard.attempts(run)[0]['id']}"
    yard.wait_until_nothing_is_left()


def test_kueue_admits_a_run_and_takes_its_machines_back(yard: KubernetesYard) -> None:
    yard.make_cluster("queued", queue="team")
    run = yard.submit(long_run("queued"))
    step = int(yard.wait_for_step(run, 5)["step"])
    yard.kubernetes.faults.is_kueue_full = True
    try:
        yard.wait_for_words(run, "Kueue has it in queue team: couldn't assign flavors")
    finally:
        yard.kubernetes.faults.is_kueue_full = False
    yard.wait_for_attempt(run, 2, step + 5)
    assert yard.attempts(run)[0]["cause"]["class"] == "preempted"
    yard.end(run)


def test_the_doctor_finds_a_cluster_ready_and_says_what_to_mend(yard: KubernetesYard) -> None:
    well = doctor(yard.up, "pods")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert "A short job ran in 2 pods" in well.stdout
    yard.wait_until_nothing_is_left()
    yard.kubernetes.faults.denied = {"create secrets"}
    try:
        ill = doctor(yard.up, "pods")
    finally:
        yard.kubernetes.faults.denied = set()
    assert ill.returncode == 1 and "may not: create secrets" in ill.stdout, ill.stdout


def test_pods_that_stay_train_one_run_after_the_other_and_leave_when_they_are_idle(yard: KubernetesYard) -> None:
    yard.make_cluster("staying", pool_idle="20s", machines=2)
    runs = [yard.submit(small("staying")) for _ in range(2)]
    for run in runs:
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    names = {part["node"] for run in runs for one in yard.attempts(run) for part in one["placements"]}
    assert len(names) == 2, "the second began where the first had been"
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: not yard.get("/nodes", cluster="staying")["items"], "a node is left in the list")

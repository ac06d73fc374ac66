"""Ray's states as words: what a job waits for, and how it ended."""

from __future__ import annotations

import pytest

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState
from runs.engines.ray.engine import demand_words, room, system_job
from runs.engines.ray.trainyard_ray.documents import Demand, JobReport, RayMachine

EIGHT = Demand(16, 8)


def machine(gpus: float, free: float, *, is_draining: bool = False) -> RayMachine:
    return RayMachine("h", {"CPU": 64, "GPU": gpus}, {"CPU": 64, "GPU": free}, is_draining)


def words(machines: list[RayMachine], *, number: int = 4, strategy: str = "STRICT_SPREAD") -> tuple[str, str]:
    job = system_job(JobReport("j", "pending", number, strategy, EIGHT), "a", machines)
    assert job.state == JobState.PENDING
    return job.reason, job.sentence


def test_a_job_that_waits_says_what_for_and_how_much_is_there() -> None:
    reason, sentence = words([machine(8, 8), machine(8, 8), machine(8, 0), machine(8, 7)])
    assert reason == "Resources"
    assert sentence == (
        "no further machine of Ray has 8 GPU and 16 CPU free; there is room for 2 of 4 now (Resources)."
    )
    assert words([machine(8, 0)] * 4)[1].startswith("no machine of Ray has 8 GPU and 16 CPU free;")


def test_a_job_that_no_machine_can_take_says_that_it_waits_for_ever() -> None:
    reason, sentence = words([machine(8, 8), machine(4, 4)])
    assert reason == "Infeasible"
    assert sentence == (
        "it asks for 4 different machines with 8 GPU and 16 CPU each, and Ray's 2 machines have room for 1 of 4 in "
        "all. Unless an autoscaler adds machines, it waits for ever (Infeasible)."
    )
    assert "and Ray has none" in words([])[1]
    assert words([machine(8, 8)] * 3 + [machine(8, 8, is_draining=True)])[0] == "Infeasible"


def test_a_job_that_has_room_is_being_placed() -> None:
    assert words([machine(8, 8)] * 4)[0] == "Starting"
    assert system_job(JobReport("j", "starting"), "a", []).sentence == "Ray is starting its actor (Starting)."


@pytest.mark.parametrize(("strategy", "number"), [("STRICT_SPREAD", 2), ("SPREAD", 3), ("PACK", 3), ("STRICT_PACK", 2)])
def test_room_is_counted_as_the_strategy_places(strategy: str, number: int) -> None:
    assert room([{"CPU": 4.0}, {"CPU": 2.0}, {"CPU": 1.0}, {}], {"CPU": 2.0}, strategy) == number


def test_demand_is_named_in_words() -> None:
    assert demand_words(Demand(1)) == "1 CPU"
    assert demand_words(Demand(2, 1, 2**34, {"fast": 0.5, "accelerator_type:A100": 0.001})) == (
        "1 GPU, 2 CPU, 16 GiB of memory, 0.5 fast and GPUs of the kind A100"
    )


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        ("", None, "ended."),
        ("exited", EndKind.ENDED, "on h ended with exit code 3: no torch."),
        ("machine-died", EndKind.NODE_FAILED, "its machine h died: no torch."),
        ("preempted", EndKind.PREEMPTED, "A machine of Ray job j was taken back on h"),
        ("out-of-memory", EndKind.ENDED, "memory had run out"),
        ("removed", EndKind.CANCELLED, "Ray's own tools"),
        ("killed", EndKind.CANCELLED, "Ray's own tools"),
        ("failed", EndKind.ENDED, "on h failed: no torch."),
        ("of a later version", EndKind.ENDED, "on h failed: no torch."),
    ],
)
def test_an_end_is_a_kind_and_a_sentence(end: str, kind: EndKind | None, said: str) -> None:
    job = system_job(JobReport("j", "over", end=end, host="h", words="no torch.", exit_code=3), "a", [])
    assert (job.state, job.end) == (JobState.OVER, kind)
    assert said in job.end_sentence

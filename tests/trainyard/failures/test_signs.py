from __future__ import annotations

import pytest

from trainyard.contract.causes import CauseClass
from trainyard.contract.reports import RankError, RankReport
from trainyard.failures.ranks import RankFailure, explain_rank
from trainyard.failures.signs import Standing

CLOSED = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:42665. This is typically caused by a remote worker crashing. Check the logs of the remote worker "
    "before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
)
RESET = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:9639: Connection "
    "reset by peer. This is typically caused by a remote worker hanging or bugs in the application. Check the logs of "
    "the remote worker before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
)


def failure_of(name: str, message: str) -> RankFailure:
    return explain_rank(RankReport(rank=0, exit_code=1, error=RankError(type=name, message=message)), "a")


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (CLOSED, "Connection closed by peer [127.0.0.1]:42665"),
        (RESET, "Read error [127.0.0.1]:9639: Connection reset by peer"),
    ],
)
def test_what_gloo_says_of_a_lost_peer_is_said_without_its_advice(message: str, what: str) -> None:
    failure = failure_of("RuntimeError", message)
    assert failure.sentence == f"Rank 0 on a lost its connection to another rank ({what})."
    assert failure.standing == Standing.DISCONNECTED


def test_a_store_that_went_away_is_a_lost_peer_whatever_it_says() -> None:
    failure = failure_of("DistNetworkError", "")
    assert failure.sentence == "Rank 0 on a lost its connection to another rank (DistNetworkError)."
    assert failure.standing == Standing.DISCONNECTED


@pytest.mark.parametrize(("name", "message"), [("ValueError", "no data"), ("ConnectionResetError", "reset by peer")])
def test_other_errors_are_causes(name: str, message: str) -> None:
    failure = failure_of(name, message)
    assert failure == (CauseClass.USER_ERROR, f"Rank 0 on a failed with {name}: {message}", Standing.OWN)


def test_a_rank_that_was_ended_since_its_spark_had_ended_says_so() -> None:
    ended = RankReport(rank=0, signal=9)
    lines = ["MemoryError", "Trainyard: Spark's worker ended by SIGKILL.", "a last word"]
    failure = explain_rank(ended, "a", stderr=lines)
    assert failure.sentence == "Rank 0 on a lost a process (Trainyard: Spark's worker ended by SIGKILL)."
    assert failure.cause_class == CauseClass.KILLED
    assert explain_rank(ended, "a", stderr=["MemoryError"]).sentence == "Rank 0 on a was killed by SIGKILL (9)."


def test_a_killed_process_of_torchrun_is_no_error_of_the_code() -> None:
    failure = failure_of("ChildFailedError", "rank 1 of TorchDistributor: Signal 9 (SIGKILL) received by PID 7")
    assert failure.cause_class == CauseClass.KILLED and "SIGKILL" in failure.sentence


def test_what_a_script_said_last_is_told_and_not_what_ray_copied_behind_it() -> None:
    lines = ["Training was not good", "(RayTrainWorker pid=320)      ^^^^ [repeated 2x]", "(raylet) at last"]
    failure = explain_rank(RankReport(rank=0, exit_code=1), "a", stderr=lines)
    assert failure.sentence == "Rank 0 on a ended with exit code 1: Training was not good."

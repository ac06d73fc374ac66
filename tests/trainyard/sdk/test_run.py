"""The SDK: everything that was logged is in the spool, and nothing that goes wrong reaches the training."""

from __future__ import annotations

import math
import threading
import warnings
from array import array
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from time import time as clock
from typing import Any

import numpy
import pytest

import trainyard
from tests.trainyard.spooled import eventually, points, producers
from trainyard.contract.records import Begin
from trainyard.sdk import run as sdk


def test_what_is_logged_lies_in_the_spool_between_begin_and_end(spool: Path) -> None:
    run = trainyard.init("demo")
    for step in range(100):
        run.log({"train/loss": 1 / (step + 1), "train/rate": step}, step=step)
    run.finish()
    [frames] = producers(spool)
    assert points(frames)["train/loss", ()] == [(step, 1 / (step + 1)) for step in range(100)]
    assert points(frames)["train/rate", ()] == [(step, float(step)) for step in range(100)]
    begin = frames[0].record()
    assert isinstance(begin, Begin) and (begin.role, begin.name) == ("rank", "demo")
    assert frames[-1].kind == "end" and frames[-1].payload["reason"] == "finish"
    assert (run.num_bad_values, run.num_lost_points) == (0, 0)


def test_points_arrive_while_the_training_goes_on(spool: Path) -> None:
    run = trainyard.init()
    eventually(lambda: len(producers(spool)) == 1)  # the begin record waits for nothing
    for step in range(3):
        run.log({"loss": 1.0}, step=step)
        eventually(lambda step=step: len(points(producers(spool)[0]).get(("loss", ()), [])) == step + 1)  # type: ignore[misc]


def test_one_process_has_one_run_until_it_is_finished(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = trainyard.init("one")
    assert trainyard.init() is first
    assert trainyard.init("two") is first
    assert "already has" in caplog.text
    first.finish()
    second = trainyard.init("two")
    assert second is not first
    second.finish()
    assert len(producers(spool)) == 2


def test_what_happened_elsewhere_keeps_its_own_time(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.log({"loss": 1.0}, step=0, time=1_600_000_000.5)
    run.log({"loss": 2.0}, step=1, time=datetime(2021, 1, 1, tzinfo=UTC))
    run.log({"said": "hello"}, step=1, time=1_600_000_001)
    run.log({"loss": 3.0}, step=2, time="yesterday")  # type: ignore[arg-type]
    run.finish()
    [frames] = producers(spool)
    times = [at for frame in frames for group in frame.payload.get("g", []) for at in array("d", group[3])]
    assert times[:2] == [1_600_000_000.5, datetime(2021, 1, 1, tzinfo=UTC).timestamp()]
    assert abs(times[2] - clock()) < 600
    assert [frame.payload["at"] for frame in frames if frame.kind == "media"] == [1_600_000_001.0]
    assert run.num_bad_values == 1 and "yesterday" in caplog.text


def test_steps_may_repeat_go_back_and_count_by_themselves(spool: Path) -> None:
    run = trainyard.init()
    for step in (5, 5, 3, -1):
        run.log({"given": 1.0}, step=step)
    for _ in range(3):
        run.log({"counted": 1.0})
    run.log({"numpy": 1.0}, step=numpy.int64(7))
    run.log({"whole": 1.0}, step=8.0)  # type: ignore[arg-type]
    run.finish()
    found = points(producers(spool)[0])
    assert [step for step, _ in found["given", ()]] == [5, 5, 3, -1]
    assert [step for step, _ in found["counted", ()]] == [0, 1, 2]
    assert [step for step, _ in found["numpy", ()] + found["whole", ()]] == [7, 8]


class Scalar:
    """Looks like a tensor with one element."""

    def item(self) -> float:
        return 2.5


def named(value: object) -> str:
    """A name for the test, the same in every process: without the address that some objects show."""
    return repr(value).partition(" at 0x")[0][:60]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1, 1.0),
        (True, 1.0),
        (2**70, 2.0**70),
        (Fraction(1, 4), 0.25),
        (numpy.float32(0.5), 0.5),
        (numpy.array(3), 3.0),
        (numpy.array([4.0]), 4.0),
        (Scalar(), 2.5),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (math.nan, math.nan),
    ],
    ids=named,
)
def test_anything_that_is_a_number_is_stored_as_one(value: Any, stored: float, spool: Path) -> None:
    run = trainyard.init()
    run.log({"value": value, "other": 1.0}, step=0)
    run.finish()
    found = points(producers(spool)[0])
    assert str(found["value", ()]) == str([(0, stored)])  # as text, since nan equals nothing
    assert found["other", ()] == [(0, 1.0)]


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bool_", "int8", "uint8", "int64", "uint64"])
def test_numbers_of_numpy_are_taken_as_they_are_once_they_are_known(kind: str, spool: Path) -> None:
    value = getattr(numpy, kind)(1)
    run = trainyard.init()
    for step in range(3):
        run.log({"value": value, "other": 2.0}, step=step)
    assert type(value) in sdk.PLAIN
    run.finish()
    found = points(producers(spool)[0])
    assert found == {
        ("value", ()): [(step, 1.0) for step in range(3)],
        ("other", ()): [(step, 2.0) for step in range(3)],
    }


@pytest.mark.parametrize("value", [b"1", None, [1.0], object(), 1j, numpy.array([1.0, 2.0]), 10**400], ids=named)
def test_what_is_no_number_costs_one_warning_and_is_counted(
    value: Any, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainyard.init()
    for step in range(3):
        run.log({"bad": value, "good": 1.0}, step=step)
    run.finish()
    assert points(producers(spool)[0]) == {("good", ()): [(0, 1.0), (1, 1.0), (2, 1.0)]}
    assert run.num_bad_values == 3
    assert len(caplog.records) == 1 and "'bad'" in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        ({"loss": 1.0}, "three"),
        ({"loss": 1.0}, 1.5),
        ({"loss": 1.0}, 2**63),
        ({"loss": 1.0}, math.nan),
        (None, 1),
        ([1.0], 1),
        ({3: 1.0}, 1),
        ({"": 1.0}, 1),
        ({"x" * 501: 1.0}, 1),
        ({"\ud800": 1.0}, 1),
    ],
    ids=lambda arguments: ascii(arguments)[:40],
)
def test_a_call_that_makes_no_sense_is_counted_and_harms_nothing(
    arguments: tuple[Any, Any], spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainyard.init()
    run.log(*arguments)
    run.log({"after": 1.0}, step=9)
    run.finish()
    assert points(producers(spool)[0]) == {("after", ()): [(9, 1.0)]}
    assert run.num_bad_values == 1 and len(caplog.records) == 1


def test_a_loss_that_still_has_its_gradient_is_stored_without_a_warning(spool: Path) -> None:
    torch = pytest.importorskip("torch")
    run = trainyard.init()
    with warnings.catch_warnings(record=True) as caught:  # PyTorch warns when float() is used for item()
        warnings.simplefilter("always")
        run.log({"loss": torch.tensor(1.5, requires_grad=True), "half": torch.tensor([0.5], dtype=torch.bfloat16)}, 0)
    run.finish()
    assert points(producers(spool)[0]) == {("loss", ()): [(0, 1.5)], ("half", ()): [(0, 0.5)]}
    assert not caught and run.num_bad_values == 0


def test_labels_are_kept_as_texts(spool: Path) -> None:
    run = trainyard.init()
    run.log({"util": 1.0}, step=0, labels={"node": "a", "gpu": 0})  # type: ignore[dict-item]
    run.log({"util": 2.0}, step=0, labels={"gpu": "0", "node": "a"})
    run.log({"util": 3.0}, step=0, labels="no labels")  # type: ignore[arg-type]
    run.finish()
    found = points(producers(spool)[0])
    assert found["util", (("gpu", "0"), ("node", "a"))] == [(0, 1.0), (0, 2.0)]
    assert found["util", ()] == [(0, 3.0)]
    assert run.num_bad_values == 1


def test_many_points_and_many_names_are_split_into_small_frames(spool: Path) -> None:
    run = trainyard.init()
    run.log({f"metric/{number}": float(number) for number in range(20_000)}, step=0)
    for step in range(20_000):
        run.log({"loss": 1.0}, step=step)
    run.finish()
    found = points(producers(spool)[0])
    assert len(found) == 20_001
    assert [step for step, _ in found["loss", ()]] == list(range(20_000))


def test_threads_lose_nothing(spool: Path) -> None:
    run = trainyard.init()

    def work(number: int) -> None:
        for step in range(2_000):
            run.log({f"thread/{number}": float(step), "shared": 1.0}, step=step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()
    found = points(producers(spool)[0])
    assert len(found["shared", ()]) == 8_000
    assert all(found[f"thread/{number}", ()] == [(step, float(step)) for step in range(2_000)] for number in range(4))


def test_logging_after_the_end_costs_one_warning(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.finish()
    run.finish()
    run.log({"loss": 1.0})
    run.log({"loss": 1.0})
    assert len(caplog.records) == 1 and "after finish" in caplog.text
    assert run.num_lost_points == 2
    assert len(producers(spool)) == 1


def test_without_a_node_the_spool_lies_beside_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINYARD_SPOOL", raising=False)
    monkeypatch.chdir(tmp_path)
    run = trainyard.init()
    monkeypatch.chdir("/")
    run.log({"loss": 1.0})
    run.finish()
    [frames] = producers(tmp_path / "trainyard-spool" / run.local_id)
    begin = frames[0].record()
    assert isinstance(begin, Begin) and (begin.role, begin.rank) == ("script", -1)

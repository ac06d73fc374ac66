"""Numbers that lie on a GPU: taken without waiting for it, and written once they have arrived."""

from __future__ import annotations

import math
import struct
import time
from pathlib import Path
from typing import Any

import pytest

import trainyard
from tests.trainyard.spooled import eventually, points, producers, told
from trainyard.sdk import buffers
from trainyard.sdk import run as sdk

torch = pytest.importorskip("torch")


class Queue:
    """Stands for a GPU's queue: what is copied is there once the test says so."""

    def __init__(self) -> None:
        self.is_done = False
        self.num_events = 0

    def query(self) -> bool:
        return self.is_done


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    """Tensors of float32 are taken for remote ones, whose copies arrive when the queue is done."""
    queue = Queue()

    def event_on(device: Any) -> Queue:
        queue.num_events += 1
        return queue

    monkeypatch.setattr("trainyard.sdk.buffers.is_remote", lambda value: getattr(value, "dtype", None) == torch.float32)
    monkeypatch.setattr(buffers, "event_on", event_on)
    return queue


def test_a_number_on_a_gpu_is_written_once_it_has_arrived(spool: Path, queue: Queue) -> None:
    run = trainyard.init()
    run.log({"loss": torch.tensor(1.5), "rate": 0.1, "norm": torch.tensor([2.5])}, step=0)
    run.log({"other": 7.0}, step=0)
    eventually(lambda: bool(producers(spool)) and ("other", ()) in points(producers(spool)[0]))
    assert set(points(producers(spool)[0])) == {("other", ())}, "nothing waits for what is not there"
    assert queue.num_events == 1, "one for all tensors of a call"
    queue.is_done = True
    eventually(lambda: ("loss", ()) in points(producers(spool)[0]))
    run.finish()
    found = points(producers(spool)[0])
    assert (found["loss", ()], found["rate", ()], found["norm", ()]) == ([(0, 1.5)], [(0, 0.1)], [(0, 2.5)])
    assert (run.num_bad_values, run.num_lost_points) == (0, 0)


def test_calls_arrive_in_their_order_with_the_times_of_the_calls(spool: Path, queue: Queue) -> None:
    run = trainyard.init()
    for step in range(100):
        run.log({"loss": torch.tensor(float(step))}, step=step)
    called_at = time.time()
    time.sleep(0.05)
    queue.is_done = True
    run.finish()
    [frames] = producers(spool)
    assert points(frames)["loss", ()] == [(step, float(step)) for step in range(100)]
    times = [
        at for frame in frames for group in frame.payload.get("g", []) for (at,) in struct.iter_unpack("<d", group[3])
    ]
    assert times == sorted(times) and times[-1] <= called_at


def test_one_may_wait_for_the_gpu(spool: Path, queue: Queue) -> None:
    run = trainyard.init()
    run.log({"loss": torch.tensor(1.5)}, step=0, wait_for_gpu=True)
    run.finish()
    assert points(producers(spool)[0]) == {("loss", ()): [(0, 1.5)]}
    assert queue.num_events == 0


def test_what_turns_out_to_be_no_number_is_left_out_of_its_call(
    spool: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trainyard.sdk.buffers.is_remote", lambda value: hasattr(value, "dtype"))
    queue.is_done = True
    run = trainyard.init()
    run.log({"complex": torch.tensor(1j), "loss": torch.tensor(math.nan)}, step=3)
    run.log({"complex": torch.tensor(1j)}, step=4)
    run.finish()
    [frames] = producers(spool)
    assert str(points(frames)) == "{('loss', ()): [(3, nan)]}"
    assert run.num_bad_values == 2 and told(frames) == {"bad_values": 2}
    assert len(caplog.records) == 1 and "'complex'" in caplog.text


def test_a_gpu_that_hangs_costs_its_points_and_a_warning(
    spool: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sdk, "FINISH_TIMEOUT_S", 0.1)
    run = trainyard.init()
    run.log({"loss": torch.tensor(1.5), "rate": 0.1}, step=0)
    run.log({"loss": 2.5}, step=1)
    run.finish()
    [frames] = producers(spool)
    assert points(frames) == {("loss", ()): [(1, 2.5)]}
    assert told(frames) == {"lost_points": 2} and run.num_lost_points == 2
    assert "GPU did not finish" in caplog.text


def test_a_gpu_that_fails_is_read_the_slow_way(spool: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: Any) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(buffers, "event_on", fail)
    run = trainyard.init()
    run.log({"loss": torch.tensor(1.5)}, step=0)
    monkeypatch.setattr(buffers, "event_on", lambda device: queue)
    monkeypatch.setattr(Queue, "query", fail)
    run.log({"loss": torch.tensor(2.5)}, step=1)
    run.finish()
    assert points(producers(spool)[0]) == {("loss", ()): [(0, 1.5), (1, 2.5)]}


@pytest.mark.parametrize("value", [torch.tensor(1.0), torch.ones(3), 1.0, "text", None], ids=repr)
def test_what_lies_in_memory_is_not_remote(value: Any) -> None:
    assert not buffers.is_remote(value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that PyTorch can use")
def test_a_real_gpu_is_not_waited_for(spool: Path) -> None:
    """``log`` returns while the GPU still works, and what arrives is what it computed."""
    run = trainyard.init()
    device = torch.device("cuda")
    large = torch.rand(8192, 8192, device=device)
    for step in range(2):  # the first time loads kernels and takes pinned memory, both of which wait for the GPU
        for _ in range(20):
            large = large @ large
            large = large / large.norm()
        done = torch.cuda.Event()
        loss = large.sum().requires_grad_()
        done.record()
        run.log({"loss": loss, "rate": 0.5, "half": large[0, 0].bfloat16()}, step=step)
        if step == 0:
            torch.cuda.synchronize()
    assert not done.query(), "the GPU is still at work when log has returned"
    loss.data.zero_()  # in the queue behind the copy
    run.log({"after": loss}, step=2)
    run.finish()
    found = points(producers(spool)[0])
    assert found["after", ()] == [(2, 0.0)] and found["rate", ()] == [(0, 0.5), (1, 0.5)]
    assert found["loss", ()][1][1] == pytest.approx(float(large.sum()), rel=1e-6)
    assert found["half", ()][1:] == [(1, float(large[0, 0].bfloat16()))]

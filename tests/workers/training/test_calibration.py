"""What a device computes is measured as the planner reads it; memory is told apart by who shares it."""

from __future__ import annotations

import mmap

import pytest
import torch

from trainyard.planner import Rates
from workers.training import calibration
from workers.training.memory_parts import held, peak_bytes, restart_peak

CPU = torch.device("cpu")
SMALL = {
    "PRODUCTS": ((8, 8, 8), (16, 8, 8)),
    "SMALL_PRODUCTS": ((8, 8, 8),),
    "ATTENTIONS": ((1, 2, 8, 8),),
    "SMALL_ATTENTIONS": ((1, 2, 8, 8),),
    "IMAGES": ((1, 8, 4),),
    "NORMED": ((4, 8),),
    "CLASSES": ((4, 8),),
    "MOVED": ((64,),),
    "TRAINED": ((64,),),
    "TRIAL_S": 0.0,
}


@pytest.fixture
def small_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(calibration, name, value)


def test_what_is_measured_is_what_the_planner_reads(small_work: None) -> None:
    rates = Rates.from_document(calibration.measure_compute(CPU))
    assert rates.is_measured
    assert [size for size, _ in rates.matmul] == [2.0 * 8 * 8 * 8, 2.0 * 16 * 8 * 8]
    assert {"attention", "convolution", "norm", "group-norm", "softmax", "move", "optimizer"} <= rates.kinds.keys()
    assert rates.base_memory_bytes > 10 * 2**20
    assert 1 / calibration.MOST_PACE <= rates.pace <= calibration.MOST_PACE


def test_the_document_is_left_to_others_to_add_links_to(small_work: None) -> None:
    document = calibration.measure_compute(CPU)
    document["links"] = {"all-reduce": {"ranks": 2, "latency_s": 0.0, "bytes_per_s": 1e9}}
    assert Rates.from_document(document).links["all-reduce"].ranks == 2


def test_the_peak_is_seen_though_it_is_over() -> None:
    restart_peak(CPU)
    before = peak_bytes(CPU)
    with mmap.mmap(-1, 64 * 2**20) as pages:
        pages.write(b"x" * len(pages))
    assert peak_bytes(CPU) - before > 60 * 2**20
    assert held(CPU).own_bytes < before + 32 * 2**20


def test_pages_of_its_own_are_told_from_shared_ones() -> None:
    memory = held(CPU)
    assert memory.own_bytes > 0
    assert memory.sharers >= 1

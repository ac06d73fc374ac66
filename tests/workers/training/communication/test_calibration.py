"""What a device computes is measured as the planner reads it; memory is told apart by who shares it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch

from tests.workers.training.communication.little import little_work
from trainyard.planner import Rates
from workers.training.communication import calibration
from workers.training.communication.exchanges import LinearFit
from workers.training.communication.main import with_links
from workers.training.measuring.memory import held

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def measured() -> Iterator[Rates]:
    """What is measured, with next to no work in it."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in little_work().items():
            patch.setattr(calibration, name, value)
        torch.set_num_threads(1)  # as a rank that shares its machine
        yield calibration.measure_compute(CPU)
        torch.set_num_threads(threads)


def test_what_is_measured_is_what_the_planner_reads(measured: Rates) -> None:
    rates = Rates.from_document(json.loads(json.dumps(measured.as_document())))
    assert rates.is_measured
    assert [size for size, _ in rates.matmul] == [2.0 * 8 * 8 * 8, 2.0 * 16 * 8 * 8]
    assert {"attention", "convolution", "norm", "group-norm", "softmax", "move", "optimizer"} <= rates.kinds.keys()
    assert rates.base_memory_bytes > 10 * 2**20
    assert [size for size, _ in rates.kinds["attention"]] == [4.0 * 8 * 8 * 8], "of a head of a row"
    assert rates.model_s > 0


def test_links_are_added_to_what_was_measured(measured: Rates) -> None:
    rates = with_links(measured, {"all-reduce": LinearFit(0.0, 1e9)}, world=2, forked=1)
    assert Rates.from_document(rates.as_document()).links["all-reduce"].ranks == 2


def test_pages_of_its_own_are_told_from_shared_ones() -> None:
    memory = held(CPU)
    assert memory.own_bytes > 0
    assert memory.sharers >= 1

"""A node has the GPUs that CUDA_VISIBLE_DEVICES names, and its slots are places in that list."""

from __future__ import annotations

import pytest

from workers.machine.gpus import VISIBLE, devices_of, visible_indexes


def test_without_the_variable_all_are_the_node_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    assert visible_indexes() is None
    assert devices_of([0, 2]) == "0,2"


@pytest.mark.parametrize(
    ("given", "indexes"),
    [("", []), ("3", [3]), ("2, 5", [2, 5]), ("1,-1,2", [1]), ("GPU-1234", []), ("NoDevFiles", [])],
)
def test_the_variable_is_read_as_cuda_reads_it(monkeypatch: pytest.MonkeyPatch, given: str, indexes: list[int]) -> None:
    monkeypatch.setenv(VISIBLE, given)
    assert visible_indexes() == indexes


def test_a_slot_is_a_place_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "4,6,7")
    assert devices_of([0, 2]) == "4,7"

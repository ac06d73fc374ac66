"""Several nodes on one machine share it without getting in each other's way."""

from __future__ import annotations

import pytest

from dashboard.up.processes import shares, usable_cores, usable_gpus


def test_one_node_has_everything() -> None:
    assert shares(1, 8, ["0", "1"]) == [{}]
    assert shares(0, 8, []) == []


@pytest.mark.parametrize(
    ("num_nodes", "gpus", "each"),
    [
        (2, ["0", "1", "2", "3"], ["0,1", "2,3"]),
        (2, ["4", "6", "7"], ["4", "6"]),
        (2, ["0"], ["", ""]),
        (3, [], ["", "", ""]),
    ],
)
def test_gpus_are_dealt_evenly_or_not_at_all(num_nodes: int, gpus: list[str], each: list[str]) -> None:
    assert [one["CUDA_VISIBLE_DEVICES"] for one in shares(num_nodes, 8, gpus)] == each


@pytest.mark.parametrize(("num_cores", "each"), [(8, "4"), (3, "1"), (1, "1")])
def test_no_node_is_left_without_a_core(num_cores: int, each: str) -> None:
    assert {one["TRAINYARD_CORES"] for one in shares(2, num_cores, [])} == {each}


def test_what_may_be_used_is_what_we_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["2", "3"], ["GPU-23dc733e-ee12", "GPU-904a2793-3099"]):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(given))
        assert usable_gpus() == given
    assert usable_cores() >= 1

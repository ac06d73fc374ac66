"""The line through measured times, and the sizes between two ends."""

from __future__ import annotations

import pytest

from workers.training.communication.main import worst
from workers.training.communication.pairs import NodeLink, first_ranks, rounds
from workers.training.communication.timing import fit, sizes_between


def test_a_line_is_found_again() -> None:
    found = fit([(size, 50e-6 + size / 2e9) for size in (1024, 65536, 2**20, 2**24)])
    assert found.latency_s == pytest.approx(50e-6)
    assert found.bytes_per_s == pytest.approx(2e9)


def test_small_messages_count_as_much_as_large_ones() -> None:
    found = fit([(1024, 60e-6), (4096, 60e-6), (2**20, 580e-6), (2**24, 9e-3)])
    assert 50e-6 < found.latency_s < 70e-6


def test_one_size_alone_has_no_latency() -> None:
    assert fit([(1000, 0.5)]) == (0.0, 2000.0)


def test_times_that_fall_below_every_line_have_none_either() -> None:
    found = fit([(1000, 1e-6), (2000, 4e-6)])
    assert found.latency_s == 0.0 and found.bytes_per_s > 0


def test_what_takes_as_long_whatever_its_size_is_latency() -> None:
    found = fit([(1000, 2e-3), (100_000, 1e-3)])
    assert found.latency_s == pytest.approx(1.5e-3)
    assert found.bytes_per_s == pytest.approx(1e8)


def test_without_a_point_there_is_no_line() -> None:
    with pytest.raises(ValueError, match="no point"):
        fit([])


@pytest.mark.parametrize(
    ("smallest", "largest", "sizes"),
    [(8, 8, [8]), (8, 32, [8, 32]), (8, 100, [8, 32, 100]), (1024, 4097, [1024, 4096, 4097])],
)
def test_sizes_grow_by_four_and_end_at_the_largest(smallest: int, largest: int, sizes: list[int]) -> None:
    assert sizes_between(smallest, largest) == sizes


def test_the_planner_counts_with_the_slowest_link() -> None:
    slow, quick = NodeLink("a", "b", [(1000, 8e-3)]), NodeLink("a", "c", [(1000, 2e-3)])
    assert worst([slow, quick]) == slow.fit == (0.0, pytest.approx(1000 / 8e-3))


def test_each_node_has_one_end_and_ranks_of_one_node_are_ends_themselves() -> None:
    assert first_ranks(["a", "a", "b", "b", "c"]) == {0: "a", 2: "b", 4: "c"}
    assert first_ranks(["a", "a"]) == {0: "a rank 0", 1: "a rank 1"}


@pytest.mark.parametrize("number", [2, 3, 16, 17, 20])
def test_every_pair_is_measured_once_and_no_end_is_in_two_at_once(number: int) -> None:
    found = list(rounds(list(range(number))))
    pairs = [pair for together in found for pair in together]
    assert sorted(pairs) == [(a, b) for a in range(number) for b in range(a + 1, number)]
    assert all(len({end for pair in together for end in pair}) == 2 * len(together) for together in found)
    assert max(map(len, found)) == (1 if number <= 16 else number // 2)

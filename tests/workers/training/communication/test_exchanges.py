"""Exchanges between real ranks: sums come out right, and every operation tells its times."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.workers.training.communication.little import compute_little
from tests.workers.training.ranks import facts, measure_on
from trainyard.planner import Rates
from trainyard.spec import parse_spec
from workers.training.communication.exchanges import bus_factor, fit, ring_all_reduce, sizes_between
from workers.training.communication.main import NodeLink, first_ranks, rounds, worst

BETWEEN_ALL = ("all-reduce", "all-gather", "reduce-scatter", "ring", "parameter-server")


def spec(world: int, **task: Any) -> dict[str, Any]:
    document = {
        "name": "links",
        "resources": {"nodes": world, "accelerator": "cpu"},
        "task": {"recipe": "communication-benchmark", "largest_bytes": 65536, "repeats": 3, **task},
    }
    return parse_spec(document).resolved()


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("output")
    found = measure_on(3, spec(3), setup=compute_little, TRAINYARD_OUTPUT=str(folder))
    assert (folder / "communication.csv").read_text().splitlines()[0].startswith("operation,from,to,bytes")
    return found


@pytest.mark.parametrize("operation", BETWEEN_ALL)
def test_every_operation_has_a_time_and_a_bandwidth_for_every_size(points: list[Any], operation: str) -> None:
    times = {step: value for name, step, _, value in points[0] if name == f"latency/{operation}"}
    rates = {step: value for name, step, _, value in points[0] if name == f"bandwidth/{operation}"}
    assert list(times) == list(rates) == [1024, 4096, 16384, 65536]
    for size, seconds in times.items():
        assert 0 < seconds < 1
        assert rates[size] == pytest.approx(size / seconds * bus_factor(operation, 3))


def test_every_pair_of_ranks_has_its_link(points: list[Any]) -> None:
    pairs = {(labels["from"], labels["to"]) for name, _, labels, _ in points[0] if name == "link/bandwidth"}
    assert pairs == {(f"node-0 rank {a}", f"node-0 rank {b}") for a, b in ((0, 1), (0, 2), (1, 2))}


def test_what_was_measured_is_told_as_facts_that_the_planner_reads(points: list[Any]) -> None:
    rates = Rates.from_document(facts(points[0], "rates"))
    assert rates.is_measured and set(rates.links) == {*BETWEEN_ALL, "send-receive"}
    assert rates.links["all-reduce"].ranks == 3 and rates.links["all-reduce"].bytes_per_s > 1e6
    told = facts(points[0], "communication")
    assert told["num_links"] == 3 and len(told["operations"]["ring"]) == 4


def test_only_rank_0_tells(points: list[Any]) -> None:
    assert points[1] == points[2] == []


@pytest.mark.extended
def test_one_rank_alone_measures_what_it_computes() -> None:
    (points,) = measure_on(1, spec(1, operations=["compute"]), setup=compute_little)
    told = facts(points, "rates")
    assert told["matmul"] and told["links"] == {}


def check_sums() -> None:
    """In each rank, before anything is measured."""
    from workers.training.communication import main

    sweeps = main.Sweeps

    def checked(*rest: Any) -> Any:
        rank, world = dist.get_rank(), dist.get_world_size()
        tensor = torch.arange(4.0 * world) + rank
        ring_all_reduce(tensor)
        wanted = world * torch.arange(4.0 * world) + sum(range(world))
        assert torch.equal(tensor, wanted), (rank, tensor)
        with pytest.raises(ValueError, match="7 numbers cannot be cut into 3"):
            ring_all_reduce(torch.zeros(7))
        return sweeps(*rest)

    main.Sweeps = checked  # type: ignore[assignment,misc]


def test_the_ring_adds_up_what_all_ranks_have() -> None:
    points = measure_on(3, spec(3, operations=["ring"], largest_bytes=1024), setup=check_sums)
    assert [name for name, *_ in points[0]][:2] == ["latency/ring", "bandwidth/ring"]


@pytest.mark.parametrize(
    ("operation", "world", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("ring", 4, 1.5),
        ("all-gather", 4, 0.75),
        ("reduce-scatter", 2, 0.5),
        ("parameter-server", 4, 3.0),
    ],
)
def test_bandwidths_are_of_the_wire(operation: str, world: int, factor: float) -> None:
    assert bus_factor(operation, world) == factor


# The line through measured times, and the sizes between two ends.


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

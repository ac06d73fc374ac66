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
from workers.training.communication.exchanges import bus_factor, make_exchange, ring_all_reduce

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
        with pytest.raises(ValueError, match=r"task\.operations has 'scatter'"):
            make_exchange("scatter", 8, torch.device("cpu"))
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

"""A short collective over nodes, by real processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from trainyard.contract.desired import CollectivePlan
from workers.node.preflight.self_check import Collective


def plans(port: int, world_size: int = 2) -> list[CollectivePlan]:
    return [CollectivePlan(rank, world_size, "127.0.0.1", port) for rank in range(world_size)]


def test_two_nodes_measure_what_lies_between_them() -> None:
    nodes = [Collective("127.0.0.1"), Collective("127.0.0.1")]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda pair: pair[0].run(pair[1]), zip(nodes, plans(nodes[0].port), strict=True)))
    for result in found:
        assert not result.problem, result.problem
        assert result.world_size == 2 and result.bytes_per_s and result.bytes_per_s > 0
        assert result.latency_s and 0 < result.latency_s < 5
    for node in nodes:
        node.stop()


def test_a_process_that_fails_says_why_in_its_last_words() -> None:
    node = Collective("127.0.0.1", module="no.such.module")
    result = node.run(plans(node.port)[0])
    assert "No module named 'no'" in result.problem
    node.stop()
    assert node.run(plans(1)[0]).problem == "the node is being stopped"


def test_one_that_never_comes_is_waited_for_so_long() -> None:
    node = Collective("127.0.0.1", limit_s=0.2)
    assert node.run(plans(node.port)[0]).problem == "it was not over within 0.2 s"
    node.stop()

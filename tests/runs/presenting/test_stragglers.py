from __future__ import annotations

import pytest

from runs.presenting.stragglers import Stragglers, sentence, stragglers

NODES = {0: "node-a", 1: "node-b", 2: "node-b", 3: "node-c"}


def told(forward: float, communication: float) -> dict[str, float]:
    return {"forward": forward, "backward": 2 * forward, "communication": communication}


def test_who_computes_longer_while_the_others_wait_is_named() -> None:
    found = stragglers({0: told(0.1, 0.35), 1: told(0.21, 0.02)})
    assert found is not None and found.ranks == (1,)
    assert sentence(found, NODES, num_ranks=2) == (
        "Rank 1 on node-b computes 2.1 times as long as the other: it waits 51 % of each step for it."
    )


def test_several_on_one_node_are_named_together() -> None:
    found = stragglers({0: told(1, 3), 1: told(2, 0), 2: told(2, 0), 3: told(1, 3)})
    assert found is not None
    assert sentence(found, NODES, num_ranks=4) == (
        "Ranks 1 and 2 on node-b compute 2.0 times as long as the others: they wait 50 % of each step for them."
    )


def test_many_are_counted() -> None:
    words = sentence(Stragglers((1, 2, 3, 4, 5, 6), 3.0, 0.4), {1: "x", 2: "y"}, num_ranks=20)
    assert words.startswith("Ranks 1, 2, 3, 4 and 2 more on 2 nodes compute 3.0 times as long as the others: they wait")


@pytest.mark.parametrize(
    ("why", "measured"),
    {
        "one rank has nobody to compare with": {0: told(1, 0)},
        "nothing is known": {},
        "all are equally fast": {0: told(1, 1), 1: told(1.1, 0.9)},
        "who is slow keeps nobody waiting": {0: told(1, 0.05), 1: told(2, 0.05)},
        "everybody waits, for a slow network": {0: told(1, 9), 1: told(1.3, 8.5)},
        "half of what there is to know is missing": {0: told(1, 3)},
    }.items(),
)
def test_nobody_is_accused_where(why: str, measured: dict[int, dict[str, float]]) -> None:
    assert stragglers(measured) is None, why

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from runs.ingest.consumer import Consumer
from runs.models import Attempt, Node, Run
from tests.cast import Cast, make_attempt, make_node
from tests.series import series_data
from tests.servers import Valkey


class Stage(NamedTuple):
    """A run with an attempt on one node, and the shard's ingest."""

    run: Run
    attempt: Attempt
    node: Node
    consumer: Consumer

    def steps(self, name: str = "train/loss") -> list[int]:
        return [step for part in series_data(self.run.pk, [name])["series"] for step in part["step"]]


@pytest.fixture
def num_ranks() -> int:
    """Ranks of the attempt of ``stage``."""
    return 1


@pytest.fixture
def stage(cast: Cast, make_run: Callable[..., Run], valkey: Valkey, num_ranks: int) -> Iterator[Stage]:
    run = make_run()
    node = make_node(cast.cluster)
    consumer = Consumer(0, block_s=0.01)
    yield Stage(run, make_attempt(run, [node], ranks=num_ranks), node, consumer)
    consumer.close()


def drain(consumer: Consumer) -> None:
    """Let it work until it finds nothing more, twice: the first time may have been the end of what was pending."""
    idle = 0
    while idle < 2:
        idle = 0 if consumer.step() else idle + 1

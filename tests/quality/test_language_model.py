"""`make quality`: what the examples of the language model say at their top, trained on two ranks of this machine.

`make test` has the examples of images and tables, which take seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.training import ranks
from tests.workers.training.conftest import corpus_cache, own_cache  # noqa: F401  # fixtures, for the ranks here too
from tests.workers.training.ranks import series, train_on
from trainyard.spec import load_spec_file, parse_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST_S = 1200
STATED = {"stdlib": 2.2, "stdlib-bpe": 2.2}  # nats per byte


@pytest.mark.slow
@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize("name", STATED)
def test_an_example_reaches_the_stated_nats_per_byte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "TIMEOUT_S", LONGEST_S)
    spec = parse_spec(load_spec_file(EXAMPLES / f"{name}.yaml"))
    losses = series(train_on(spec.world_size(), spec.resolved())[0], "val/nats_per_byte")
    print({step: round(loss, 3) for step, loss in losses.items()})
    assert losses[max(losses)] < STATED[name]

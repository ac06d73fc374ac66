from __future__ import annotations

import json
import math

import pytest

from tests.workers.training.ranks import series, tiny_spec, train_on
from tests.workers.training.recipes.tasks import TABLE
from workers.training.optimizing.early_stopping import EarlyStopping


def test_so_many_validations_without_a_better_loss_are_enough() -> None:
    stopping = EarlyStopping(patience=2)
    assert [stopping.is_enough(loss) for loss in (3.0, 2.0, 2.0, 1.9, 2.5, 1.95)] == [False] * 5 + [True]


def test_with_patience_0_nothing_is_ever_enough() -> None:
    stopping = EarlyStopping()
    assert not any(stopping.is_enough(2.0) for _ in range(100))


def test_what_falls_by_less_than_min_delta_is_not_better() -> None:
    stopping = EarlyStopping(patience=1, min_delta=0.1)
    assert [stopping.is_enough(loss) for loss in (2.0, 1.8, 1.75)] == [False, False, True]


def test_nan_is_never_better() -> None:
    stopping = EarlyStopping(patience=2)
    assert [stopping.is_enough(loss) for loss in (math.nan, math.nan)] == [False, True]


def test_accuracy_has_to_rise() -> None:
    stopping = EarlyStopping(patience=2, min_delta=0.05, metric="val/accuracy")
    assert [stopping.is_enough(value) for value in (0.5, 0.6, 0.62, 0.7, 0.6, math.nan)] == [False] * 5 + [True]
    assert stopping.reason().startswith("val/accuracy has not risen above its best 0.7000 by more than 0.05 in 2 ")


def test_its_state_survives_json_and_goes_on_counting() -> None:
    stopping = EarlyStopping(patience=2)
    stopping.is_enough(math.nan)
    other = EarlyStopping(patience=2)
    other.load(json.loads(json.dumps(stopping.state(), allow_nan=False)))
    assert other == stopping
    stopping.is_enough(2.0)
    stopping.is_enough(2.5)
    other.load(json.loads(json.dumps(stopping.state(), allow_nan=False)))
    assert other.is_enough(2.1)


def test_the_reason_names_the_best_loss_and_the_patience() -> None:
    stopping = EarlyStopping(patience=1, min_delta=0.5)
    stopping.is_enough(2.0)
    stopping.is_enough(1.9)
    assert stopping.reason() == (
        "val/loss has not fallen below its best 2.0000 by more than 0.5 in 1 validations in a row "
        "(early_stopping.patience is 1): the run ends here"
    )


def hopeless(**changes: object) -> dict[str, object]:
    """A spec whose validation loss cannot fall by as much as it asks."""
    stopping = {"patience": 2, "min_delta": 100.0}
    return tiny_spec(steps=12, validate_every_steps=2, early_stopping=stopping, **changes)


def test_a_run_that_learns_no_more_ends_on_all_ranks_at_the_same_step() -> None:
    pair = train_on(2, hopeless(world=2))
    # The validation before the first step is no result of training, and counts for nothing.
    assert list(series(pair[0], "val/loss")) == [0, 2, 4, 6]
    for points in pair:
        assert max(step for name, step, _, _ in points if name == "rank/memory_bytes") == 6


def test_rank_0_decides_for_all() -> None:
    """Where one rank would see another loss, it would wait for the others for ever."""
    pair = train_on(2, hopeless(world=2), setup=let_only_rank_0_see_losses)
    for points in pair:
        assert max(step for name, step, _, _ in points if name == "rank/memory_bytes") == 6


def test_a_metric_that_the_data_has_no_answer_for_is_refused_with_those_there_are() -> None:
    # Of a table of one's own, a rank is the first to know.
    spec = {**tiny_spec(task=TABLE), "early_stopping": {"metric": "val/r2", "patience": 1, "min_delta": 0.0}}
    with pytest.raises(
        ValueError, match=r"early_stopping\.metric is val/r2, .* accepted here: val/loss, val/accuracy$"
    ):
        train_on(1, spec)


def let_only_rank_0_see_losses() -> None:
    import torch.distributed as dist

    plain = EarlyStopping.is_enough

    def confused(self: EarlyStopping, loss: float) -> bool:
        return plain(self, loss) and dist.get_rank() == 0

    EarlyStopping.is_enough = confused  # type: ignore[method-assign]

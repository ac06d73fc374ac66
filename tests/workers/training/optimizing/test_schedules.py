from __future__ import annotations

import pytest

from workers.training.optimizing.schedules import make_schedule


@pytest.mark.parametrize(
    ("kind", "warmup_steps", "expected"),
    [
        ("constant", 0, [1.0, 1.0, 1.0, 1.0]),
        ("constant", 2, [0.5, 1.0, 1.0, 1.0]),
        ("linear", 0, [1.0, 0.75, 0.5, 0.25]),
        ("linear", 2, [0.5, 1.0, 1.0, 0.5]),
        ("cosine", 0, [1.0, 0.8535534, 0.5, 0.1464466]),
        ("cosine", 2, [0.5, 1.0, 1.0, 0.5]),
        ("cosine", 4, [0.25, 0.5, 0.75, 1.0]),
        ("warmup-stable-decay", 0, [1.0, 1.0, 1.0, 1.0]),
        ("warmup-stable-decay", 2, [0.5, 1.0, 1.0, 1.0]),
    ],
)
def test_each_schedule_follows_its_table(kind: str, warmup_steps: int, expected: list[float]) -> None:
    schedule = make_schedule(kind, peak=1.0, steps=4, warmup_steps=warmup_steps)
    assert [schedule(step) for step in range(1, 5)] == pytest.approx(expected, abs=1e-7)


def test_warmup_stable_decay_holds_its_peak_and_falls_evenly_in_the_last_fifth() -> None:
    schedule = make_schedule("warmup-stable-decay", peak=1.0, steps=60, warmup_steps=10)
    assert {schedule(step) for step in range(10, 51)} == {1.0}
    assert [schedule(step) for step in range(51, 61)] == pytest.approx([1.0 - 0.1 * index for index in range(10)])


def test_the_peak_scales_every_step() -> None:
    one = make_schedule("cosine", peak=1.0, steps=50, warmup_steps=5)
    two = make_schedule("cosine", peak=2.0, steps=50, warmup_steps=5)
    assert [two(step) for step in range(1, 51)] == pytest.approx([2 * one(step) for step in range(1, 51)])


def test_no_step_is_taken_with_a_learning_rate_of_zero() -> None:
    for kind in ("linear", "cosine", "warmup-stable-decay"):
        schedule = make_schedule(kind, peak=1.0, steps=300, warmup_steps=20)
        assert min(schedule(step) for step in range(1, 301)) > 0


def test_an_unknown_schedule_is_refused_by_its_field() -> None:
    with pytest.raises(
        ValueError, match=r"train\.schedule is 'sawtooth'; accepted are constant, linear, cosine, warmup"
    ):
        make_schedule("sawtooth", peak=1.0, steps=4, warmup_steps=0)

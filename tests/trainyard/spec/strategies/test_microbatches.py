"""Into how many microbatches a batch is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.spec import form_fields
from trainyard.spec.strategies.pipeline import CHUNKS, accepted_microbatches, choose_microbatches, fits


def test_auto_takes_two_a_stage_as_far_as_the_batch_divides() -> None:
    assert choose_microbatches("1f1b", 4, "auto", 32) == 8
    assert choose_microbatches("1f1b", 4, "auto", 6) == 6
    assert choose_microbatches("gpipe", 2, "auto", 7) == 1
    assert choose_microbatches("layer-wise", 4, "auto", 32) == 1


def test_a_number_that_fits_is_taken() -> None:
    assert choose_microbatches("1f1b", 2, 16, 32) == 16


@pytest.mark.parametrize(
    ("schedule", "asked", "accepted"),
    [("1f1b", 3, "auto, 1, 2, 4, 8"), ("layer-wise", 2, "auto, 1"), ("interleaved", 16, "auto, 1, 2, 4, 8")],
)
def test_a_number_that_does_not_fit_is_refused_with_those_that_do(schedule: str, asked: int, accepted: str) -> None:
    with pytest.raises(ValueError, match=f"{asked} does not fit the 8 samples .* accepted: {accepted}$"):
        choose_microbatches(schedule, 2, asked, 8)


@settings(deadline=None)
@given(st.sampled_from(sorted(CHUNKS)), st.integers(2, 9), st.integers(1, 400))
def test_there_is_always_a_number_and_each_divides(schedule: str, stages: int, rows: int) -> None:
    accepted = accepted_microbatches(schedule, stages, rows)
    assert accepted == [n for n in range(1, rows + 1) if rows % n == 0 and fits(schedule, stages, n)]
    assert choose_microbatches(schedule, stages, "auto", rows) in accepted


def test_every_schedule_of_the_form_has_its_number_of_parts() -> None:
    choices = next(info.choices for info in form_fields() if info.path == "parallel.pipeline.schedule")
    assert set(choices) == set(CHUNKS)

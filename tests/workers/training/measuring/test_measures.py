from __future__ import annotations

import pytest
import torch

from tests.workers.training.ranks import facts, series, tiny_spec, train_on
from trainyard.contract.facts import MEASURED
from trainyard.spec.sections.parallel import Parallel
from workers.training.measuring import measures
from workers.training.measuring.measures import NOTE_PERIOD_S, Measures
from workers.training.mesh import make_mesh

PARALLEL = Parallel()
FLOPS_PER_ROW = 1e6
PEAK = 1e9
PHASES = {"data", "forward", "backward", "communication", "optimizer", "checkpoint"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Measures:
    """Measures of one of two ranks, whose devices reach PEAK."""
    monkeypatch.setattr(measures, "peak_flops", lambda device, precision: PEAK)
    return Measures(
        torch.device("cpu"), make_mesh(PARALLEL, 2), precision="fp32", flops_per_row=FLOPS_PER_ROW, sent_by_backward=100
    )


def take(made: Measures, *times_s: float) -> None:
    for time_s in times_s:
        made.begin()
        made.phases.stop()
        made.end(time_s)


def test_a_rank_tells_what_its_steps_took(made: Measures) -> None:
    take(made, 9.0, 0.2, 0.4, 0.3)
    told = made.facts(4, rows=8, is_last=True)
    assert told is not None
    assert (told.step, told.num_steps, told.rows) == (4, 3, 8)
    assert told.step_time_s == 0.3  # the median, without the first step
    assert told.sent_bytes == 100
    assert told.phases.keys() == PHASES
    assert told.flops_per_step == 8 * FLOPS_PER_ROW
    assert told.mfu == pytest.approx(8 * FLOPS_PER_ROW / 0.3 / PEAK)
    assert (told.peak_memory_bytes or 0) > 2**20


def test_it_tells_soon_and_then_every_ten_seconds(made: Measures, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("workers.training.measuring.measures.time.monotonic", lambda: now)
    told = []
    for step in range(1, 9):
        take(made, 1.0)
        told += [step] if made.facts(step, rows=8) else []
        now += NOTE_PERIOD_S / 4
    assert told == [3, 7]


def test_a_run_of_two_steps_tells_at_its_end(made: Measures) -> None:
    take(made, 1.0)
    assert made.facts(1, rows=8) is None
    take(made, 1.0)
    told = made.facts(2, rows=8, is_last=True)
    assert told is not None and told.mfu is not None


def test_mfu_is_a_share_of_what_all_ranks_could_do(made: Measures) -> None:
    assert "train/mfu" not in made.shared(1.0, 16)  # nobody has looked yet
    take(made, 1.0)
    made.facts(1, rows=8, is_last=True)
    assert made.shared(0.5, 16) == {
        "train/flops_per_second": 16 * FLOPS_PER_ROW / 0.5,
        "train/mfu": pytest.approx(16 * FLOPS_PER_ROW / 0.5 / (2 * PEAK)),
    }


def test_a_device_of_which_nobody_knows_the_peak_has_no_mfu(made: Measures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "peak_flops", lambda device, precision: None)
    take(made, 1.0)
    told = made.facts(1, rows=8, is_last=True)
    assert told is not None and told.mfu is None
    assert "train/mfu" not in made.shared(1.0, 16)


def test_a_checkpoint_that_was_due_is_a_phase_of_its_step(made: Measures) -> None:
    take(made, 1.0, 1.0)
    assert made.kept(0.0001) == {}
    assert made.kept(0.5) == {"rank/phase/checkpoint_s": 0.5}
    told = made.facts(2, rows=8, is_last=True)
    assert told is not None and told.phases["checkpoint"] == 0.5


def test_every_rank_of_a_run_tells_and_rank_0_logs_what_all_reach() -> None:
    ranks = train_on(2, tiny_spec(world=2, steps=5, validate_every_steps=0))
    for points in ranks:
        data = facts(points, MEASURED)
        assert data["step"] == 5 and data["rows"] == 4
        assert 0 < data["mfu"] < 1
    rates = series(ranks[0], "train/flops_per_second")
    assert set(rates) == {1, 2, 3, 4, 5} and min(rates.values()) > 0
    assert set(series(ranks[0], "train/mfu")) == {4, 5}  # the peak is looked for behind the third step
    assert not series(ranks[1], "train/mfu")


def test_a_cpu_that_was_busy_when_its_peak_was_looked_for_reaches_no_more_than_all_of_it(made: Measures) -> None:
    step_s = 8 * FLOPS_PER_ROW / PEAK / 2  # twice as quick as the products that were timed
    take(made, *[step_s] * 3)
    told = made.facts(3, rows=8, is_last=True)
    assert told is not None and told.mfu == pytest.approx(1.0)
    assert made.shared(step_s, 16)["train/mfu"] == pytest.approx(1.0)

"""When a rank counts as hung: with a clock of the test's own."""

from __future__ import annotations

import msgspec

from trainyard.contract.reports import PendingCollective, RankStall
from trainyard.spec.sections.hangs import HangRules
from workers.progress.description import Description
from workers.progress.marker import Marks
from workers.supervisor.hangs.tracker import RankTraits, Sample, Tracker

RECIPE, SCRIPT, ALONE = RankTraits(True, True), RankTraits(False, True), RankTraits(False, False)
IN_A_COLLECTIVE = msgspec.json.encode(
    Description(collective=PendingCollective(operation="all_reduce"), line="train.py line 84", entered={"0": 7})
)


class Rank:
    """A rank and its tracker, looked at twice a second."""

    def __init__(self, kind: RankTraits, after_s: float | None = None) -> None:
        self.tracker = Tracker(HangRules(after_s), kind, now=0.0)
        self.now = 0.0
        self.marks = Marks(0, "", 0, 0, b"")

    def let(self, seconds: float, *, alive: bool = False, stopped: bool = False, **marks: object) -> RankStall | None:
        self.marks = self.marks._replace(**marks)
        stall = None
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            stall = self.tracker.update(
                Sample(self.now, 1e9 + self.now, self.marks, is_stopped=stopped, is_alive=alive)
            )
        return stall

    def train(self, steps: int, each_s: float = 1.0) -> None:
        for step in range(self.marks.step + 1, self.marks.step + steps + 1):
            assert self.let(each_s, step=step, phase="forward") is None


def test_a_training_is_hung_after_ten_of_its_own_steps_and_not_before_a_minute() -> None:
    quick, slow = Rank(RECIPE), Rank(RECIPE)
    quick.train(20)
    stall = quick.let(50)
    assert stall is not None and not stall.is_over
    stall = quick.let(12)
    assert stall is not None and stall.is_over and (stall.step, stall.phase, stall.limit_s) == (20, "forward", 60.0)
    slow.train(4, each_s=30)
    stall = slow.let(299 - 30)
    assert stall is not None and not stall.is_over
    stall = slow.let(40)
    assert stall is not None and stall.is_over and stall.limit_s == 300.0


def test_a_validation_a_checkpoint_and_a_compilation_have_time() -> None:
    compiling = msgspec.json.encode(Description(is_compiling=True))
    for marks in ({"phase": "validation"}, {"phase": "checkpoint"}, {"phase": "data"}, {"text": compiling}):
        rank = Rank(RECIPE, after_s=5)
        rank.train(10)
        assert rank.let(200, **marks) is None, marks
        rank.let(0.5, step=11, phase="forward", text=b"")
        stall = rank.let(6)
        assert stall is not None and stall.is_over  # the time in the phase does not count, what follows does


def test_a_phase_beside_the_steps_that_never_ends_is_found_too() -> None:
    rank = Rank(RECIPE, after_s=5)
    rank.train(10)
    stall = rank.let(601, phase="data")
    assert stall is not None and stall.is_over and stall.phase == "data"


def test_a_phase_may_take_ten_times_what_it_took_before() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    rank.let(100, phase="validation", entered=1)
    rank.train(10)
    stall = rank.let(900, phase="validation")
    assert stall is not None and not stall.is_over and stall.limit_s >= 1000


def test_a_start_has_a_longer_limit() -> None:
    rank = Rank(RECIPE, after_s=5)
    assert rank.let(290) is None
    assert rank.let(200, step=1, phase="forward", alive=True) is None  # it compiles: it uses the processor
    stall = rank.let(601)
    assert stall is not None and stall.is_over


def test_a_stopped_process_is_reported_in_seconds_and_counts_as_hung_after_15() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    assert rank.let(1.5, stopped=True) is None
    stall = rank.let(1.5, stopped=True)
    assert stall is not None and stall.is_stopped and not stall.is_over and stall.step == 10
    stall = rank.let(14, stopped=True)
    assert stall is not None and stall.is_over
    assert rank.let(4) is None  # it goes on


def test_a_script_that_computes_or_prints_is_at_work() -> None:
    rank = Rank(SCRIPT, after_s=5)
    rank.let(10, alive=True)
    assert rank.let(600, alive=True) is None


def test_a_script_that_waits_in_a_collective_is_hung_whatever_it_computes() -> None:
    rank = Rank(SCRIPT, after_s=5)
    for entered in range(1, 20):
        rank.let(0.5, entered=entered)
    stall = rank.let(6, alive=True, text=IN_A_COLLECTIVE)  # NCCL waits with a busy processor
    assert stall is not None and stall.is_over
    assert stall.collective is not None and stall.collective.operation == "all_reduce"
    assert (stall.line, stall.entered, stall.step) == ("train.py line 84", {"0": 7}, None)


def test_a_single_process_that_waits_for_work_is_no_hang_unless_somebody_says_so() -> None:
    assert Rank(ALONE).let(100_000) is None
    stall = Rank(ALONE, after_s=30).let(31)
    assert stall is not None and stall.is_over


def test_time_in_which_nobody_looked_does_not_count() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    rank.now += 3_600  # the machine was suspended
    assert rank.let(4) is None


def test_what_is_no_description_is_none() -> None:
    rank = Rank(RECIPE)
    rank.train(10)
    stall = rank.let(61, text=b"\xff{")
    assert stall is not None and stall.is_over and stall.line == ""

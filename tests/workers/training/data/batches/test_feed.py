from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

from workers.training.data.batches import feed as feeds
from workers.training.data.batches.feed import Feed
from workers.training.mesh import BatchShare


class Counting:
    """A task whose batch is its positions; ``took`` are those of each call, and who called."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.is_slow = is_slow
        self.took: list[tuple[int, int, bool]] = []

    def train_batch(self, positions: Any) -> Any:
        if self.is_slow:
            time.sleep(2 * feeds.WORTH_A_THREAD_S)
        numbers = (
            torch.arange(positions.start, positions.stop) if isinstance(positions, slice) else torch.tensor(positions)
        )
        first, last = int(numbers[0]), int(numbers[-1])
        if last >= 10_000:
            raise OSError(f"row {max(first, 10_000)} cannot be read")
        self.took.append((first, last + 1, threading.current_thread() is threading.main_thread()))
        return numbers, numbers


def share_of(part: int, num_parts: int = 2, micro: int = 2, accumulate: int = 2) -> BatchShare:
    return BatchShare(micro, accumulate, part, num_parts)


def rows(feed: Feed, step: int, index: int) -> list[int]:
    return feed.batch(step, index)[0].tolist()


@pytest.fixture(params=["read in turn", "read ahead"])
def task(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Counting:
    if request.param == "read ahead":
        monkeypatch.setattr(feeds, "WORTH_A_THREAD_S", 0.0)
        monkeypatch.setattr(feeds, "NUM_READS", 1)
    return Counting()


def test_the_parts_of_a_step_are_its_samples_once(task: Counting) -> None:
    ranks = [Feed(task, 8, share_of(part)) for part in (0, 1)]  # type: ignore[arg-type]
    for step in (1, 2, 3, 4, 5):
        found = [row for feed in ranks for index in (0, 1) for row in rows(feed, step, index)]
        assert sorted(found) == list(range(8 * (step - 1), 8 * step))
    for feed in ranks:
        feed.close()


def test_a_restart_goes_on_with_the_sample_that_it_names(task: Counting) -> None:
    feed = Feed(task, 8, share_of(1))  # type: ignore[arg-type]
    assert rows(feed, 1, 0) == [2, 3]
    feed.restart(11, 100)
    assert rows(feed, 11, 0) == [102, 103]
    assert rows(feed, 12, 0) == [110, 111]
    assert feed.samples_before(13) == 116
    feed.close()


def test_another_share_counts_from_the_next_batch_on(task: Counting) -> None:
    feed = Feed(task, 8, share_of(1))  # type: ignore[arg-type]
    for step in (1, 2, 3, 4, 5):
        rows(feed, step, 0), rows(feed, step, 1)
    feed.resize(8, BatchShare(1, 2, 1, 2, (3, 1)))
    assert [rows(feed, 6, index) for index in (0, 1)] == [[43], [47]]
    feed.close()


def test_a_step_may_be_asked_for_again(task: Counting) -> None:
    feed = Feed(task, 8, share_of(0))  # type: ignore[arg-type]
    for step in (1, 1, 2, 3, 4, 2, 1):
        assert rows(feed, step, 0) == [8 * step - 8, 8 * step - 7]
        assert rows(feed, step, 1) == [8 * step - 4, 8 * step - 3]
    feed.close()


def test_what_cannot_be_read_is_told_in_the_step_that_needs_it(task: Counting) -> None:
    feed = Feed(task, 8, share_of(0))  # type: ignore[arg-type]
    feed.restart(1, 9_980)
    for step in (1, 2):
        assert len(rows(feed, step, 0) + rows(feed, step, 1)) == 4
    assert rows(feed, 3, 0) == [9_996, 9_997]
    with pytest.raises(OSError, match="row 10000 cannot be read"):
        rows(feed, 3, 1)
    feed.close()


def test_what_is_slow_to_read_gets_a_thread_and_what_is_quick_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "WORTH_A_THREAD_S", 0.02)
    slow, quick = Counting(is_slow=True), Counting()
    for task in (slow, quick):
        feed = Feed(task, 8, share_of(0, accumulate=1, micro=4))  # type: ignore[arg-type]
        for step in range(1, 9):
            rows(feed, step, 0)
        feed.close()
    assert [is_main for _, _, is_main in slow.took[:3]] == [True] * 3
    assert not any(is_main for _, _, is_main in slow.took[3:])
    assert all(is_main for _, _, is_main in quick.took)


def test_what_is_quick_to_read_is_read_for_several_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "AT_ONCE_S", 60.0)  # whatever the machine does beside
    monkeypatch.setattr(feeds, "WORTH_A_THREAD_S", 60.0)
    task = Counting()
    feed = Feed(task, 8, share_of(0, accumulate=1, micro=4))  # type: ignore[arg-type]
    for step in range(1, 2 + feeds.AT_ONCE):
        assert rows(feed, step, 0) == list(range(8 * step - 8, 8 * step - 4))
    assert [(start, stop) for start, stop, _ in task.took] == [(0, 4), (8, 8 * feeds.AT_ONCE + 4)]


def test_no_thread_is_left_when_it_is_closed(task: Counting) -> None:
    feed = Feed(task, 8, share_of(0))  # type: ignore[arg-type]
    for step in (1, 2, 3):
        rows(feed, step, 0), rows(feed, step, 1)
    feed.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "reads ahead"]

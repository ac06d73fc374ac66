from __future__ import annotations

import threading
from collections.abc import Callable

from workers.training.strategies.synchronization.parameter_server import Clocks


def clocks(*ranks: int, max_staleness: int = 2) -> Clocks:
    return Clocks(ranks or (0, 1), done=0, max_staleness=max_staleness)


def waits_until(one: Clocks, rank: int, event: Callable[[], object]) -> int:
    """Assert that ``rank`` is held until ``event`` has happened; return its lead then."""
    leads: list[int] = []
    thread = threading.Thread(target=lambda: leads.append(one.wait(rank)), daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    event()
    thread.join(10)
    (lead,) = leads
    return lead


def test_a_worker_goes_on_while_it_is_not_too_far_ahead() -> None:
    one = clocks()
    assert one.wait(0) == 0
    one.advance(0, 1, 5.0)
    one.advance(0, 2, 5.0)
    assert one.wait(0) == 2
    assert one.wait(1) == 0


def test_a_worker_too_far_ahead_waits_for_the_slowest() -> None:
    one = clocks(0, 1, 2)
    one.advance(1, 1, 5.0)
    for step in (1, 2, 3):
        one.advance(0, step, 5.0)
    assert waits_until(one, 0, lambda: one.advance(2, 1, 5.0)) == 2


def test_without_staleness_all_go_in_step() -> None:
    one = clocks(max_staleness=0)
    one.advance(0, 1, 5.0)
    assert waits_until(one, 0, lambda: one.advance(1, 1, 5.0)) == 0


def test_nobody_waits_for_the_dead() -> None:
    one = clocks()
    for step in (1, 2, 3):
        one.advance(0, step, 5.0)
    assert waits_until(one, 0, lambda: one.remove(1)) == 0
    assert one.living == [0]


def test_at_the_end_nobody_waits() -> None:
    one = clocks()
    for step in (1, 2, 3):
        one.advance(0, step, 5.0)
    waits_until(one, 0, one.end)
    assert one.is_over


def test_the_loss_of_a_step_is_known_once_all_have_done_it_and_told_once() -> None:
    one = clocks()
    one.advance(0, 1, 4.0)
    one.advance(0, 2, 3.0)
    assert one.take_losses() == {}
    one.advance(1, 1, 6.0)
    assert one.take_losses() == {1: 5.0}
    assert one.take_losses() == {}
    one.remove(1)
    assert one.take_losses() == {2: 3.0}

from __future__ import annotations

import gc
import threading
import weakref
from itertools import count

import pytest

from workers.training.data.batches.feed import Ahead

PATIENCE_S = 20


def places(first: int = 0) -> list[slice]:
    return [slice(at, at + 1) for at in range(first, first + 100)]


class Maker:
    """Makes the number of a place, when it is let."""

    def __init__(self, *, is_free: bool = True) -> None:
        self.made: list[int] = []
        self.may = threading.Semaphore(1000 if is_free else 0)
        self.changed = threading.Condition()

    def __call__(self, place: slice) -> int:
        assert self.may.acquire(timeout=PATIENCE_S)
        with self.changed:
            self.made.append(place.start)
            self.changed.notify_all()
        return place.start

    def wait_for(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.made) >= number, PATIENCE_S), self.made


def test_what_comes_next_is_made_before_it_is_asked_for() -> None:
    make = Maker()
    ahead = Ahead(make, iter(places()), depth=2)
    make.wait_for(2)
    assert ahead.take(slice(0, 1)) == 0
    make.wait_for(3)
    assert [ahead.take(slice(at, at + 1)) for at in (1, 2, 3)] == [1, 2, 3]
    ahead.close()


def test_no_more_is_made_than_there_is_room_for() -> None:
    make = Maker()
    ahead = Ahead(make, iter(places()), depth=2)
    make.wait_for(2)
    ahead.close()
    assert make.made == [0, 1]


def test_who_comes_too_early_waits() -> None:
    make = Maker(is_free=False)
    ahead = Ahead(make, iter(places()), depth=2)
    threading.Timer(0.01, make.may.release, args=(10,)).start()
    assert ahead.take(slice(0, 1)) == 0
    ahead.close()


def test_another_place_than_the_next_is_not_there() -> None:
    ahead = Ahead(Maker(), iter(places()), depth=2)
    assert ahead.take(slice(5, 6)) is None
    assert ahead.take(slice(0, 1)) == 0
    ahead.close()


def test_what_goes_wrong_is_raised_where_it_is_asked_for() -> None:
    def make(place: slice) -> int:
        if place.start == 1:
            raise OSError("row 1 cannot be read")
        return place.start

    ahead = Ahead(make, iter(places()), depth=2)
    assert ahead.take(slice(0, 1)) == 0
    with pytest.raises(OSError, match="row 1 cannot be read"):
        ahead.take(slice(1, 2))
    ahead.close()


def test_the_thread_ends_when_it_is_closed_also_twice() -> None:
    ahead = Ahead(Maker(), (slice(at, at + 1) for at in count()), depth=2)
    thread = ahead._thread
    ahead.close()
    ahead.close()
    assert not thread.is_alive()


def test_the_thread_ends_when_nobody_needs_it_any_more() -> None:
    ahead = Ahead(Maker(), iter(places()), depth=2)
    thread, gone = ahead._thread, weakref.ref(ahead)
    del ahead
    gc.collect()
    assert gone() is None
    thread.join(PATIENCE_S)
    assert not thread.is_alive()

"""What will be wanted next, made by a thread while its user does something else."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0
LOOK_EVERY_S = 1.0  # whether the thread is still there


class Ahead(Generic[T]):
    """Makes ``make(place)`` for each of ``places``, ``depth`` of them at most before they are taken.

    The thread ends with ``close``, and when nobody refers to this any more; so ``make`` must not either.
    """

    def __init__(self, make: Callable[[slice], T], places: Iterator[slice], depth: int) -> None:
        self._shelf: Shelf[T] = Shelf(depth)
        self._thread = threading.Thread(target=self._shelf.fill, args=(make, places), name="reads ahead", daemon=True)
        # Also when the interpreter ends: a thread in the middle of torch's code would then be killed in there.
        self._closed = weakref.finalize(self, close, self._shelf, self._thread)
        self._thread.start()

    def take(self, place: slice) -> T | None:
        """Return what was made for ``place``, waiting for it; None where another one is next. Raises what ``make``
        raised for it."""
        return self._shelf.take(place, self._thread)

    def close(self) -> None:
        """End the thread, behind what it is making; what it has made is dropped."""
        self._closed()


class Shelf(Generic[T]):
    """What the thread and its user share."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._made: deque[tuple[slice, T | None, BaseException | None]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def fill(self, make: Callable[[slice], T], places: Iterator[slice]) -> None:
        for place in places:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or len(self._made) < self._depth)
                if self._is_closed:
                    return
            made, trouble = None, None
            try:
                made = make(place)
            except BaseException as error:  # whatever it is, it is raised where the batch is asked for
                trouble = error
            with self._changed:
                self._made.append((place, made, trouble))
                self._changed.notify_all()
            if trouble is not None:
                return

    def take(self, place: slice, thread: threading.Thread) -> T | None:
        with self._changed:
            while not self._made:
                self._changed.wait(LOOK_EVERY_S)
                assert self._made or thread.is_alive(), "the thread that reads ahead has gone"
            if self._made[0][0] != place:
                return None
            _, made, trouble = self._made.popleft()
            self._changed.notify_all()
        if trouble is not None:
            raise trouble
        return made

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._made.clear()
            self._changed.notify_all()


def close(shelf: Shelf[Any], thread: threading.Thread) -> None:
    shelf.close()
    if thread is not threading.current_thread():
        thread.join(CLOSE_TIMEOUT_S)

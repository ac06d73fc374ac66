"""Batches of each step: read ahead by a thread where that is worth one, and where it is not, several at once, since
most of what a small batch costs is the calls that read it. Arrays go to the device beside what it computes."""

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from workers.training.data.batches.order import Batch, BatchReader, Positions, Rows, Skipped, SkippedSteps
from workers.training.mesh import BatchShare

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0
LOOK_EVERY_S = 1.0  # whether the thread is still there
DEPTH = 2  # batches that are ready before they are asked for
WORTH_A_THREAD_S = 200e-6  # below it a batch is read sooner than two threads have taken turns
NUM_READS = 3  # in a row that took longer: one may have been the first of a file
AT_ONCE = 64  # batches at most that are read together…
AT_ONCE_S = 1e-3  # …and for how long: no step waits for more, and none of them is large
Read = Callable[[slice], Batch]
Arrival = Callable[[], Batch]  # called by the thread that computes, just before it uses the batch


class Feed:
    """This rank's batches. A step takes the ``batch_size`` samples behind those of the step before, over all ranks.

    ``restart`` says where a training goes on, whose batch may have had another size until then.
    """

    def __init__(
        self, task: BatchReader, batch_size: int, share: BatchShare, device: torch.device | None = None
    ) -> None:
        self._read = task.train_batch
        self._device = device or torch.device("cpu")
        self._positions = Positions(batch_size)
        self._share = share
        self._num_slow = 0
        self._at_once = 1  # batches: more where they were quick to read
        self._read_before: deque[tuple[slice, Batch]] = deque()
        self._ahead: Ahead[Arrival] | None = None

    def restart(self, step: int, sample: int, skipped: tuple[Skipped, ...] = ()) -> None:
        """Let ``step`` begin with ``sample``, counted from 0 over all epochs, and leave out the ``skipped`` ones."""
        self.close()
        self._positions = replace(self._positions, first_step=step, first_sample=sample, skipped=skipped)

    def skip(self, steps: Sequence[SkippedSteps]) -> None:
        """Leave out the batches of these steps, too: the later ones count steps as the earlier ones left them."""
        self.close()
        self._positions = self._positions.without(steps)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return self._positions.skipped

    def resize(self, batch_size: int, share: BatchShare) -> None:
        """Take another share of every batch from now on; what was read ahead is dropped. Another ``batch_size`` is that
        of all steps since the training began, or was restarted."""
        self.close()
        self._positions, self._share = replace(self._positions, batch_size=batch_size), share

    def samples_before(self, step: int) -> int:
        """Return the sample with which ``step`` begins: how many all ranks have taken before, or left out."""
        return self._positions.samples_before(step)

    def batch(self, step: int, index: int) -> Batch:
        """Return this rank's micro-batch ``index`` of ``step``, on the task's device. Raises what reading it raised."""
        wanted = positions(self.samples_before(step), self._share, index)
        if self._ahead is not None:
            if (arrival := self._ahead.take(wanted)) is not None:
                return arrival()
            self.close()  # another than the next one was asked for
        if self._read_before and self._read_before[0][0] == wanted:
            return self._read_before.popleft()[1]
        places = [wanted, *islice(following(step, index, self._positions, self._share), self._at_once - 1)]
        started = time.perf_counter()
        batch, *rest = self._read_all(places)
        seconds = (time.perf_counter() - started) / len(places)
        is_quick = seconds <= WORTH_A_THREAD_S
        self._at_once = max(1, min(AT_ONCE, int(AT_ONCE_S / seconds))) if is_quick else 1
        self._num_slow = 0 if is_quick else self._num_slow + 1
        self._read_before = deque(zip(places[1:], rest, strict=False))  # fewer, where only the first can be read
        if self._num_slow >= NUM_READS:
            self._read_before.clear()
            places_ahead = following(step, index, self._positions, self._share)
            self._ahead = Ahead(TransferReader(self._read, self._device).read, places_ahead, DEPTH)
        return batch

    def _read_all(self, places: list[slice]) -> list[Batch]:
        """Return the batches at ``places``, or only the first where others cannot be read: the step that needs those
        raises the error."""
        if len(places) == 1:
            return [self._read(places[0])]
        sizes = [place.stop - place.start for place in places]
        try:
            inputs, targets = self._read(every_position(places, sizes))
        except Exception:  # of a row that may never be wanted; read alone, the one that is says what is wrong
            return [self._read(places[0])]
        return list(zip(torch.split(inputs, sizes), torch.split(targets, sizes), strict=True))

    def close(self) -> None:
        """End the thread, if there is one, and drop what was read before it was wanted."""
        self._read_before.clear()
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


def positions(first: int, share: BatchShare, index: int) -> slice:
    """Return which samples micro-batch ``index`` takes in the step that begins with sample ``first``."""
    rows = share.rows(index)
    return slice(first + rows.start, first + rows.stop)


def every_position(places: list[slice], sizes: list[int]) -> Rows:
    """Return what lies in ``places``, of these sizes, one position after the other: int64."""
    starts, lengths = np.array([place.start for place in places]), np.array(sizes)
    ends = lengths.cumsum()
    found: Rows = (starts - ends + lengths).repeat(lengths) + np.arange(ends[-1])
    return found


def following(step: int, index: int, order: Positions, share: BatchShare) -> Iterator[slice]:
    """Yield what comes behind micro-batch ``index`` of ``step``, without an end."""
    first = order.samples_before(step)
    yield from (positions(first, share, later) for later in range(index + 1, share.accumulate))
    for following_step in count(step + 1):
        start = order.samples_before(following_step)
        yield from (positions(start, share, later) for later in range(share.accumulate))


# Batches made ahead, by a thread, while their user does something else.


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
    """Batches that the thread and its user share."""

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


# Transfer of arrays from the host to the device, beside what it computes.


def on_device(array: np.ndarray[Any, np.dtype[Any]], device: torch.device) -> torch.Tensor:
    """Return a tensor of ``array``, which nobody changes any more, on ``device``.

    To a GPU it goes from memory that is never swapped, so that the copy needs no processor; it is on its way when this
    returns, and what is computed later on the same stream waits for it.
    """
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class TransferReader:
    """Reads batches in a thread of its own, for another that computes."""

    def __init__(self, read: Read, device: torch.device) -> None:
        self._read, self._device = read, device
        # Copies on a stream of their own: on the one of the thread that computes they would wait for its kernels.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def read(self, positions: slice) -> Arrival:
        if self._stream is None:
            batch = self._read(positions)
            return lambda: batch
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            return partial(_arrived, self._read(positions), self._stream.record_event())


def _arrived(batch: Batch, copied: torch.cuda.Event) -> Batch:
    """Let the current stream wait until the batch is there, and keep its memory until that stream is through."""
    stream = torch.cuda.current_stream()
    stream.wait_event(copied)
    for tensor in batch:
        tensor.record_stream(stream)
    return batch

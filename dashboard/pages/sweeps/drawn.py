"""What takes long to compute of a sweep: computed beside the requests, and kept in this process until more of its
trials are complete."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

from runs.models import Sweep
from trainyard.contract.statuses import TrialState

MOST = 64
PATIENCE_S = 0.25  # of a short sweep the first request has the answer
Document = dict[str, object]
Prepare = Callable[[], Callable[[], Document]]


class Kept(NamedTuple):
    """``is_current``: no trial has completed since. Without a document it is being computed for the first time."""

    document: Document | None
    is_current: bool


_lock = Lock()
_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sweep-figures")  # requests come first
_found: OrderedDict[tuple[str, str], tuple[int, Document]] = OrderedDict()
_underway: dict[tuple[str, str], Future[Document]] = {}


def kept(sweep: Sweep, name: str, prepare: Prepare) -> Kept:
    """Return the newest document there is. Where more trials are complete, ``prepare`` reads the database, and what it
    returns computes a new one in a thread."""
    key, num = (sweep.pk, name), sweep.trials.filter(state=TrialState.COMPLETE).count()
    with _lock:
        before, future = _found.get(key), _underway.get(key)
    if before is not None and before[0] == num:
        return Kept(before[1], is_current=True)
    if future is None:
        future = _begin(key, num, prepare())
    try:
        return Kept(future.result(timeout=PATIENCE_S if before is None else 0), is_current=before is None)
    except TimeoutError:
        return Kept(before[1] if before is not None else None, is_current=False)


def _begin(key: tuple[str, str], num: int, compute: Callable[[], Document]) -> Future[Document]:
    with _lock:
        future = _underway.get(key)
        if future is not None:
            return future
        future = _underway[key] = _pool.submit(compute)
    future.add_done_callback(lambda done: _end(key, num, done))
    return future


def _end(key: tuple[str, str], num: int, done: Future[Document]) -> None:
    """Keep what was found; what failed is computed again at the next request, which gets the error."""
    with _lock:
        _underway.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        _found[key] = (num, done.result())
        _found.move_to_end(key)
        while len(_found) > MOST:
            _found.popitem(last=False)

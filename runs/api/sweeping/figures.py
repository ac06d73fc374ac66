"""``/sweeps/{id}/importance``, and how it is computed: beside the requests, and kept in this process until more trials
of the sweep have a value."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

from django.db.models import Count
from django.http import HttpRequest
from ninja import Status as Answer

from runs.api.auth import Resource
from runs.api.schemas import schema_of
from runs.models import Sweep
from runs.rights.access import Permission, get_sweep
from runs.rights.access.operations import operation, thing
from runs.sweeps.analysis.best import SpaceField, fields_of
from runs.sweeps.analysis.importance import HOW_FAR, importance
from runs.sweeps.reading import compared_points
from trainyard.contract.answers.sweeps import Importance

MOST = 64
PATIENCE_S = 0.25  # of a short sweep the first request has the answer
Prepare = Callable[[], Callable[[], Importance]]
Counts = dict[str, int]  # of the trials that have a value, by state
router = Resource(tags=["sweeps"])


class KeptFigures(NamedTuple):
    """``is_current``: no trial has got a value since. Without ``found`` it is being computed for the first time."""

    found: Importance | None
    is_current: bool


ImportanceOut = schema_of(Importance)


@router.get(
    "/sweeps/{sweep_id}/importance",
    response={200: ImportanceOut, 202: ImportanceOut},
    summary="Importance of each field of a sweep",
)
@operation(thing(Permission.SWEEPS_READ))
def show(request: HttpRequest, sweep_id: str) -> Answer[Any]:
    """202, with no fields, while they are computed for the first time."""
    kept = importance_of(get_sweep(request, sweep_id))
    nothing = {"fields": [], "interactions": 0.0, "num_complete": 0, "num_reported": 0, "num_used": 0}
    found = kept.found or {**nothing, "sentence": "They are being computed."}
    return Answer(200 if kept.found else 202, {**found, "is_current": kept.is_current})


def importance_of(sweep: Sweep) -> KeptFigures:
    """Return how much each field matters. What computes it reads the trials first, and then no database."""

    def prepare() -> Callable[[], Importance]:
        trials = compared_points(sweep)
        space = [*fields_of(sweep.parsed.space), SpaceField(HOW_FAR, 0.0, 1.0)]
        return lambda: importance(trials, space)

    with_value = sweep.trials.exclude(value=None, steps=None).order_by("state")
    return figures_kept(sweep.pk, dict(with_value.values_list("state").annotate(Count("pk"))), prepare)


_lock = Lock()
_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sweep-figures")  # requests come first
_found: OrderedDict[str, tuple[Counts, Importance]] = OrderedDict()
_underway: dict[str, Future[Importance]] = {}


def figures_kept(key: str, nums: Counts, prepare: Prepare) -> KeptFigures:
    """Return the newest figures that there are under the key. Where ``nums`` are others than theirs, ``prepare`` reads
    the database, and what it returns computes new ones in a thread."""
    with _lock:
        before, future = _found.get(key), _underway.get(key)
    if before is not None and before[0] == nums:
        return KeptFigures(before[1], is_current=True)
    if future is None:
        future = _begin(key, nums, prepare())
    try:
        return KeptFigures(future.result(timeout=PATIENCE_S if before is None else 0), is_current=before is None)
    except TimeoutError:
        return KeptFigures(before[1] if before is not None else None, is_current=False)


def _begin(key: str, nums: Counts, compute: Callable[[], Importance]) -> Future[Importance]:
    with _lock:
        future = _underway.get(key)
        if future is not None:
            return future
        future = _underway[key] = _pool.submit(compute)
    future.add_done_callback(lambda done: _end(key, nums, done))
    return future


def _end(key: str, nums: Counts, done: Future[Importance]) -> None:
    """Keep what was found; what failed is computed again at the next request, which gets the error."""
    with _lock:
        _underway.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        _found[key] = (nums, done.result())
        _found.move_to_end(key)
        while len(_found) > MOST:
            _found.popitem(last=False)

"""Writing the pyramid: what sealed segments add to the rows of each level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runs.records.metrics.bulk import delete_rows, in_parts
from runs.records.metrics.models import Level
from runs.records.points.compaction.pyramid import LADDER, Buckets, combine, decode, encode, regrouped, top_of

BUCKETS_PER_ROW = 4096
STRIDE = LADDER.step
COLUMNS = ("series_id", "attempt", "level", "pk", "count", "first_step", "last_step")

Place = tuple[int, int]  # series id, attempt


@dataclass(frozen=True)
class Stored:
    """A row of a level without its data."""

    pk: int
    count: int
    first_step: int
    last_step: int


Rows = dict[int, list[Stored]]  # by level, as they were written


@dataclass
class Change:
    gone: list[int] = field(default_factory=list)
    rows: list[Level] = field(default_factory=list)

    def save(self) -> None:
        delete_rows(Level, self.gone)
        Level.objects.bulk_create(self.rows)


class _Plan(NamedTuple):
    place: Place
    level: int
    new: Buckets
    absorbed: list[int]


def grown(new: Mapping[Place, Sequence[tuple[int, Buckets]]]) -> Change:
    """Return the change that adds to each place the buckets of newly sealed segments, given at the segments' bases.

    Rows of a level are put together like the digits of a binary number, so that each bucket is written again a few
    times only and the last rows are still few.
    """
    known = _rows_of(new)
    plans: list[_Plan] = []
    for place, parts in new.items():
        rows = known.get(place, {})
        for level, buckets in _by_level(rows, parts).items():
            size, absorbed = buckets.size, list[int]()
            for row in reversed(rows.get(level, [])):
                if row.count > min(2 * size, BUCKETS_PER_ROW // 2):
                    break
                absorbed.append(row.pk)
                size += row.count
            plans.append(_Plan(place, level, buckets, absorbed))
    data = _data_of([pk for plan in plans for pk in plan.absorbed])
    change = Change()
    for plan in plans:
        change.gone += plan.absorbed
        change.rows += _rows(plan, combine([*(decode(data[pk]) for pk in plan.absorbed), plan.new]))
    return change


def _rows_of(places: Mapping[Place, object]) -> dict[Place, Rows]:
    known: dict[Place, Rows] = {}
    for ids in in_parts(sorted({series_id for series_id, _ in places})):
        rows = Level.objects.filter(series__in=ids).order_by("pk")
        for series_id, attempt, level, *row in rows.values_list(*COLUMNS):
            known.setdefault((series_id, attempt), {}).setdefault(level, []).append(Stored(*row))
    return known


def _by_level(rows: Rows, parts: Sequence[tuple[int, Buckets]]) -> dict[int, Buckets]:
    """Return what each level gets, up to the top. A top that moves up begins with all that the old top holds."""
    old_top = max(rows, default=-1)
    old = rows.get(old_top, [])
    first = min([row.first_step for row in old] + [int(part.key[0]) << base for base, part in parts])
    last = max([row.last_step for row in old] + [int(part.last_step.max()) for _, part in parts])
    top = top_of(first, last, max([old_top] + [base for base, _ in parts]))
    found: dict[int, Buckets] = {}
    for level in LADDER:
        if level > top:
            break
        inputs = [part for base, part in parts if base == level]
        if level - STRIDE in found:
            finer = found[level - STRIDE]
            inputs.append(regrouped(finer, finer.key >> STRIDE))
        if old and level == old_top + STRIDE:
            whole = combine([decode(data) for data in _data_of([row.pk for row in old]).values()])
            inputs.append(regrouped(whole, whole.key >> STRIDE))
        if inputs:
            found[level] = combine(inputs)
    return found


def _data_of(ids: list[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for some in in_parts(ids):
        found.update((pk, bytes(data)) for pk, data in Level.objects.filter(pk__in=some).values_list("pk", "data"))
    return found


def _rows(plan: _Plan, buckets: Buckets) -> list[Level]:
    count = -(-buckets.size // BUCKETS_PER_ROW)
    size = -(-buckets.size // count)
    (series_id, attempt), level = plan.place, plan.level
    made = []
    for start in range(0, buckets.size, size):
        part = buckets.part(start, start + size)
        steps = {"first_step": int(part.key[0]) << level, "last_step": int(part.last_step.max())}
        row = Level(series_id=series_id, attempt=attempt, level=level, count=part.size, data=encode(part), **steps)
        made.append(row)
    return made

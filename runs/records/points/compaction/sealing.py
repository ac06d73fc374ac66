"""Turning what ingest wrote into what readers like: blocks into segments, segments into sealed ones with a pyramid.

Each step reads and encodes outside of a transaction (this process is the only writer of these rows but for the deletion
of a run, which a step notices) and replaces rows in one short one: whoever is killed in between leaves the one state or
the other.

What keeps ``last`` exact: of two points with the same step and time the one that came later wins. Points that came
earlier lie in segments of a smaller (cursor, id). So only neighbours in arrival are put together, a segment is sealed
as it lies only if its steps are its own among all that are not sealed, and no cut goes between two such points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.db import transaction

from runs.records.metrics.bulk import RunGone, delete_rows, execute, in_parts, marks
from runs.records.metrics.codec import Columns, Floats, Steps, joined
from runs.records.metrics.models import Axis, Block, Segment, Telemetry
from runs.records.points.blocks import decode_blocks
from runs.records.points.compaction.levels import Place, grown
from runs.records.points.compaction.pyramid import Buckets, base_of, bucketed
from runs.records.points.segments import POINTS_PER_SEGMENT, Stretch, decoded, encode_segments, order_of, slices
from trainyard.grouping import grouped

SEAL_AS_IT_LIES = 8192  # points: a segment this long gains little from being put together with others
POINTS_PER_STEP = 524_288


@dataclass(frozen=True)
class Unit:
    """A segment that is not sealed, without its data."""

    pk: int
    axis_id: int
    place: Place
    cursor: int
    count: int
    first_step: int
    last_step: int


@dataclass
class Replaced:
    """Changes of one step of compaction."""

    run_id: str
    blocks: list[int] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)  # segments that go
    ready: list[tuple[int, Stretch, int | None]] = field(default_factory=list)  # segments that come
    bases: dict[int, int] = field(default_factory=dict)  # segments that are sealed as they lie
    buckets: dict[Place, list[tuple[int, Buckets]]] = field(default_factory=dict)
    compacted_cursor: int = 0

    def save(self) -> None:
        encoded = encode_segments(self.run_id, self.ready)
        levels = grown(self.buckets)
        with transaction.atomic(using=settings.METRICS_DATABASE):
            found = delete_rows(Block, self.blocks) + _delete_segments(self.units) + _seal(self.bases)
            if found != len(self.blocks) + len(self.units) + len(self.bases):
                raise RunGone(self.run_id)
            encoded.save()
            levels.save()
            if self.compacted_cursor:
                Telemetry.objects.filter(pk=self.run_id).update(compacted_cursor=self.compacted_cursor)


def fold_blocks(run_id: str, bound: int) -> bool:
    """Turn the oldest blocks up to cursor ``bound`` into segments, all series of the run together, so that they share
    axes. Returns whether there are more. Raises RunGone."""
    wanted = Block.objects.filter(run_id=run_id, cursor__lte=bound).order_by("cursor", "pk")
    listed = list(wanted.values_list("pk", "cursor", "count"))
    if not listed:
        Telemetry.objects.filter(pk=run_id, compacted_cursor__lt=bound).update(compacted_cursor=bound)
        return False
    total, upto = 0, bound
    for place, (_, cursor, count) in enumerate(listed):
        if total > POINTS_PER_STEP and cursor > listed[place - 1][1]:
            upto = cursor - 1
            break
        total += count
    taken = [pk for pk, cursor, _ in listed if cursor <= upto]
    rows = [row for ids in in_parts(taken) for row in _blocks(ids)]
    pieces: dict[Place, list[tuple[int, Columns]]] = {}
    for attempt in {attempt for attempt, _, _ in rows}:
        own = [(cursor, data) for other, cursor, data in rows if other == attempt]
        for some in _between_segments(run_id, own):
            for place, (series_id, columns) in decode_blocks([data for _, data in some]):
                pieces.setdefault((series_id, attempt), []).append((some[place][0], columns))
    change = Replaced(run_id, blocks=taken, compacted_cursor=upto)
    units: dict[Place, list[Unit]] = {}
    for some_series in in_parts(sorted({series_id for series_id, _ in pieces})):
        units |= _units(upto, series__in=some_series)
    _put_together(change, pieces, units)
    change.save()
    return len(taken) < len(listed)


def _blocks(ids: Sequence[int]) -> list[tuple[int, int, bytes]]:
    rows = Block.objects.filter(pk__in=ids).order_by("cursor", "pk").values_list("attempt", "cursor", "data")
    return [(attempt, cursor, bytes(data)) for attempt, cursor, data in rows]


def _between_segments(run_id: str, blocks: list[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
    """Return the blocks (cursor, data) in one list, but where segments came in between, each in its own: points that
    came before a segment and points that came after it are not one piece."""
    between = Segment.objects.filter(
        series__run_id=run_id, is_sealed=False, cursor__gte=blocks[0][0], cursor__lte=blocks[-1][0]
    )
    return [[block] for block in blocks] if between.exists() else [blocks]


def seal(run_id: str, bound: int, *, is_quiet: bool) -> bool:
    """Seal some of the run's segments up to cursor ``bound``, where enough have come together. ``is_quiet``: nothing
    more is coming soon, what is left of each series becomes one. Returns whether it did anything. Raises RunGone."""
    change = Replaced(run_id)
    total, axes = 0, Axes()
    rest: list[list[Unit]] = []
    for units in sorted(_units(bound, series__run_id=run_id).values(), key=lambda units: units[0].axis_id):
        free = _with_steps_of_their_own(units)
        alone = [unit for unit in units if unit.count >= SEAL_AS_IT_LIES and unit.pk in free]
        others = [unit for unit in units if unit.count < SEAL_AS_IT_LIES or unit.pk not in free]
        count = sum(unit.count for unit in others)
        if count >= POINTS_PER_SEGMENT or (is_quiet and len(others) > 1):
            rest.append(others)
            total += count
        for start in range(0, len(alone), 16):
            if total < POINTS_PER_STEP:
                total += _seal_as_they_lie(change, alone[start : start + 16])
        if total >= POINTS_PER_STEP:
            break
    points = _points_of([unit for units in rest for unit in units])
    for units in rest:
        _cut(change, units, [points[unit.pk] for unit in units], axes)
    if not total:
        return False
    change.save()
    return True


Axes = dict[tuple[bytes, bytes], tuple[Steps, Floats]]  # of columns, equal ones once, by their content


def _shared(axes: Axes, columns: Columns) -> Columns:
    key = columns.steps.tobytes(), columns.times.tobytes()
    return Columns(*axes.setdefault(key, (columns.steps, columns.times)), columns.values)


def _put_together(
    change: Replaced, pieces: dict[Place, list[tuple[int, Columns]]], units: dict[Place, list[Unit]]
) -> None:
    """Make segments of the pieces, together with the segments before them that are no longer than they: like the
    digits of a binary number, so that each point is written again a few times only, however slow its series is."""
    groups = [(place, group) for place, own in pieces.items() for group in _groups(units.get(place, []), own)]
    points = _points_of([part for _, group in groups for part in group if isinstance(part, Unit)])
    axes = Axes()
    for (series_id, attempt), group in groups:
        parts = [points[part.pk] if isinstance(part, Unit) else part[1] for part in group]
        cursor = max(part.cursor if isinstance(part, Unit) else part[0] for part in group)
        change.units += [part for part in group if isinstance(part, Unit)]
        columns = _in_order(joined(parts))
        for where in slices(columns.steps, columns.times, POINTS_PER_SEGMENT):
            stretch = Stretch(series_id, cursor, _shared(axes, columns.part(where.start, where.stop)))
            change.ready.append((attempt, stretch, None))


Part = Unit | tuple[int, Columns]


def _groups(units: list[Unit], pieces: list[tuple[int, Columns]]) -> list[list[Part]]:
    """Return what becomes one segment each, in order of arrival; segments that stay as they are are left out."""
    parts: list[tuple[int, int, Part]] = [(unit.cursor, 0, unit) for unit in units]
    parts += [(piece[0], 1, piece) for piece in pieces]
    stack: list[tuple[int, bool, list[Part]]] = []  # count, whether a block's points are in it
    for *_, part in sorted(parts, key=itemgetter(0, 1)):
        count = part.count if isinstance(part, Unit) else part[1].size
        group = [part]
        if isinstance(part, Unit):
            stack.append((count, False, group))
            continue
        while stack and (stack[-1][1] or stack[-1][0] <= min(count, SEAL_AS_IT_LIES)):
            before, _, own = stack.pop()
            count, group = count + before, own + group
        stack.append((count, True, group))
    return [group for _, is_new, group in stack if is_new]


def _seal_as_they_lie(change: Replaced, units: list[Unit]) -> int:
    points = _points_of(units)
    for unit in units:
        change.bases[unit.pk] = _add_buckets(change, unit.place, points[unit.pk], unit.cursor)
    return sum(unit.count for unit in units)


def _cut(change: Replaced, units: list[Unit], parts: list[Columns], axes: Axes) -> None:
    """Put the segments in order and seal what is full; what is left waits for more."""
    columns = _in_order(joined(parts))
    cursor = max(unit.cursor for unit in units)
    series_id, attempt = units[0].place
    change.units += units
    for where in slices(columns.steps, columns.times, POINTS_PER_SEGMENT):
        part = _shared(axes, columns.part(where.start, where.stop))
        is_full = part.size >= POINTS_PER_SEGMENT or where.stop < columns.size
        base = _add_buckets(change, (series_id, attempt), part, cursor) if is_full else None
        change.ready.append((attempt, Stretch(series_id, cursor, part), base))


def _add_buckets(change: Replaced, place: Place, columns: Columns, cursor: int) -> int:
    base = base_of(columns.steps)
    change.buckets.setdefault(place, []).append((base, bucketed(columns, columns.steps >> base, cursor)))
    return base


def _in_order(columns: Columns) -> Columns:
    order = order_of(columns.steps, columns.times)
    return columns if order is None else columns.at(order)


def _with_steps_of_their_own(units: Sequence[Unit]) -> set[int]:
    """Return the segments that no other overlaps."""
    ordered = sorted(units, key=lambda unit: unit.first_step)
    reach, found = None, set[int]()
    for place, unit in enumerate(ordered):
        is_after = reach is None or unit.first_step > reach
        if is_after and (place + 1 == len(ordered) or ordered[place + 1].first_step > unit.last_step):
            found.add(unit.pk)
        reach = unit.last_step if reach is None else max(reach, unit.last_step)
    return found


COLUMNS = ("pk", "axis_id", "series_id", "attempt", "cursor", "count", "first_step", "last_step")


def _units(bound: int, **which: Any) -> dict[Place, list[Unit]]:
    rows = Segment.objects.filter(is_sealed=False, cursor__lte=bound, **which).order_by("cursor", "pk")
    listed = rows.values_list(*COLUMNS)
    units = (Unit(pk, axis_id, (series_id, attempt), *rest) for pk, axis_id, series_id, attempt, *rest in listed)
    return grouped((unit.place, unit) for unit in units)


def _points_of(units: Sequence[Unit]) -> dict[int, Columns]:
    """Return the points of the segments. Raises RunGone."""
    found: dict[int, Columns] = {}
    for ids in in_parts([unit.pk for unit in units]):
        found.update((row.pk, columns) for row, columns in decoded(Segment.objects.filter(pk__in=ids)))
    if len(found) < len(units):
        raise RunGone(f"{len(units) - len(found)} segments are gone")
    return found


def _delete_segments(units: Sequence[Unit]) -> int:
    """Delete the segments, and the axes that no other segment has."""
    deleted = delete_rows(Segment, [unit.pk for unit in units])
    for axes in in_parts(sorted({unit.axis_id for unit in units})):
        delete_rows(Axis, list(Axis.objects.filter(pk__in=axes, segments=None).values_list("pk", flat=True)))
    return deleted


def _seal(bases: dict[int, int]) -> int:
    sealed = 0
    for base in set(bases.values()):
        ids = [pk for pk, own in bases.items() if own == base]
        sql = f"UPDATE metrics_segment SET is_sealed = %s, base = %s WHERE id IN ({marks(len(ids))})"
        sealed += execute(sql, [True, base, *ids])
    return sealed

"""The points of series as they lie in the store: in blocks and in segments, of one attempt or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from django.db.models import Q

from runs.metrics.blocks import decode_block
from runs.metrics.codec import Columns, Floats, Steps, decode_axis, decode_values
from runs.metrics.models import Axis, Block, Segment, Series

IDS_PER_QUERY = 500
Place = tuple[int, int]  # series id, attempt


def stored(run_id: str, series: Sequence[Series], overlaps: Q = Q()) -> dict[Place, list[Columns]]:  # noqa: B008
    """Return the points of each series and attempt in order of arrival: of segments that meet ``overlaps`` (which
    speaks of their first and last step and time), and of all blocks."""
    found: dict[Place, list[tuple[int, Columns]]] = {}
    ids = [row.pk for row in series]
    for segment, columns in _segments(ids, overlaps):
        found.setdefault((segment.series_id, segment.attempt), []).append((segment.cursor, columns))
    wanted = set(ids)
    for block in Block.objects.filter(run_id=run_id).order_by("cursor", "id"):
        for series_id, columns in decode_block(bytes(block.data), wanted):
            found.setdefault((series_id, block.attempt), []).append((block.cursor, columns))
    return {place: [columns for _, columns in sorted(parts, key=itemgetter(0))] for place, parts in found.items()}


def _segments(ids: list[int], overlaps: Q) -> Iterator[tuple[Segment, Columns]]:
    for start in range(0, len(ids), IDS_PER_QUERY):
        rows = Segment.objects.filter(overlaps, series__in=ids[start : start + IDS_PER_QUERY])
        yield from decoded(rows.order_by("cursor", "id"))


def decoded(segments: Iterable[Segment]) -> Iterator[tuple[Segment, Columns]]:
    """Yield the segments with their points; an axis that several share is read once."""
    rows = list(segments)
    axes = axes_of({row.axis_id for row in rows})
    for row in rows:
        yield row, Columns(*axes[row.axis_id], decode_values(bytes(row.data)))


def axes_of(ids: set[int]) -> dict[int, tuple[Steps, Floats]]:
    ordered = sorted(ids)
    found: dict[int, tuple[Steps, Floats]] = {}
    for start in range(0, len(ordered), IDS_PER_QUERY):
        rows = Axis.objects.filter(pk__in=ordered[start : start + IDS_PER_QUERY]).values_list("pk", "data")
        found.update((pk, decode_axis(bytes(data))) for pk, data in rows.iterator())
    return found

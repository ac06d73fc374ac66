"""The points of segments, each with its axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runs.records.metrics.codec import Columns, Floats, Steps, decode_axis, decode_values
from runs.records.metrics.models import Axis, Segment
from runs.records.metrics.rows import IDS_PER_QUERY


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

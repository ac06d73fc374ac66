"""All points of a span in order, a stretch at a time, in bounded memory: segments are read as their steps come up, and
what no later segment can precede is handed on."""

from collections.abc import Iterator, Sequence

from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Segment
from runs.records.points.charts import fetch
from runs.records.points.charts.fetch import Part
from runs.records.points.charts.zoom import Span
from runs.records.points.segments import decoded

SEGMENTS_AT_ONCE = 16


def stream(run_id: str, span: Span) -> Iterator[Columns]:
    """Yield the span's points by (step, time, arrival). Inside a snapshot."""
    waiting = fetch.between(fetch.blocks([run_id], {span.place[0]}).get(span.place, []), span.low, span.high)
    for next_step, parts in _arriving(span):
        waiting += fetch.between(parts, span.low, span.high)
        ready = fetch.between(waiting, fetch.MIN_STEP, next_step - 1)
        if ready:
            waiting = fetch.between(waiting, next_step, fetch.MAX_STEP)
            yield fetch.in_order(ready)[0]


def _arriving(span: Span) -> Iterator[tuple[int, list[Part]]]:
    """Yield some segments, by their first steps, and the first step of those that come after them."""
    series_id, attempt = span.place
    rows = Segment.objects.filter(
        series=series_id, attempt=attempt, first_step__lte=span.high, last_step__gte=span.low
    ).order_by("first_step")
    known: list[tuple[int, int]] = list(rows.values_list("pk", "first_step"))
    for start in range(0, len(known), SEGMENTS_AT_ONCE):
        some = known[start : start + SEGMENTS_AT_ONCE]
        later = known[start + SEGMENTS_AT_ONCE : start + SEGMENTS_AT_ONCE + 1]
        yield later[0][1] if later else fetch.MAX_STEP + 1, _read([pk for pk, _ in some])
    if not known:
        yield fetch.MAX_STEP + 1, []


def _read(ids: Sequence[int]) -> list[Part]:
    return [(row.cursor, row.pk, columns) for row, columns in decoded(Segment.objects.filter(pk__in=ids))]

"""What was logged at a step and is no number: written in the transaction of a batch, read for the Media page.

As with points the newest attempt wins: it hides older items of the same name and labels from its own first step on.
Images are kept as they came, everything else compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import numpy as np
import zstandard
from django.db.models import Count, Max, Min, Sum

from runs.deltas.delta import numbers
from runs.media.histograms import Histogram, rebinned
from runs.metrics.models import Media
from runs.metrics.rows import IDS_PER_QUERY
from runs.points.summaries import text_of
from runs.points.tables import labels_key

HISTOGRAM, IMAGE, TEXT, TABLE = KINDS = ("histogram", "image", "text", "table")
MAX_STEPS = 2_000  # of one name and labels, in an answer
MAX_HISTOGRAMS = 4_000  # that one answer adds up; each takes up to 64 KB of memory
MAX_DATA_BYTES = 4 * 1024 * 1024  # what one item may unpack to; a frame has 1 MiB
LEVEL = 3  # of zstandard

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a rank logged; ``data`` as runs.ingest.validation.media checked it."""

    name: str
    labels: dict[str, str]
    labels_key: str
    kind: str
    step: int
    time: float
    meta: Document
    data: bytes


@dataclass(slots=True)
class Totals:
    """How much media a run has."""

    num_items: int = 0
    num_bytes: int = 0


class Place(NamedTuple):
    """Where an item stands."""

    pk: int
    step: int
    attempt: int
    rank: int
    superseded: bool


def totals_of(run_id: str) -> Totals:
    found = Media.objects.filter(run_id=run_id).aggregate(number=Count("pk"), size=Sum("size"))
    return Totals(found["number"], found["size"] or 0)


def write_media(
    run_id: str, *, attempt: int, cursor: int, items: Iterable[tuple[int, Item]], totals: Totals, at_most: Totals
) -> tuple[int, int]:
    """Store items, each with its rank, and count them in ``totals``. Returns how many were stored, and how many were
    not since the run has ``at_most``."""
    rows, num_lost = [], 0
    for rank, item in items:
        size = len(item.data)
        if totals.num_items >= at_most.num_items or totals.num_bytes + size > at_most.num_bytes:
            num_lost += 1
            continue
        totals.num_items += 1
        totals.num_bytes += size
        rows.append(
            Media(
                run_id=run_id, name=item.name, labels=item.labels, labels_key=item.labels_key, kind=item.kind,
                step=item.step, time=item.time, attempt=attempt, rank=rank, cursor=cursor, meta=item.meta, size=size,
                data=item.data if item.kind == IMAGE else zstandard.compress(item.data, LEVEL),
            )
        )  # fmt: skip
    Media.objects.bulk_create(rows)
    return len(rows), num_lost


def media_list(run_id: str) -> list[Document]:
    """Return each name with its labels and kind: how many items, the first and the last step."""
    rows = Media.objects.filter(run_id=run_id).values("name", "labels_key", "kind")
    found = rows.annotate(count=Count("pk"), first_step=Min("step"), last_step=Max("step"), some=Min("pk"))
    ordered = list(found.order_by("name", "labels_key", "kind"))
    labels: dict[int, dict[str, str]] = {}
    for start in range(0, len(ordered), IDS_PER_QUERY):
        some = [row["some"] for row in ordered[start : start + IDS_PER_QUERY]]
        labels.update(Media.objects.filter(pk__in=some).values_list("pk", "labels"))
    return [
        {"labels": labels[row["some"]], "name": row["name"], "kind": row["kind"], "count": row["count"],
         "first_step": row["first_step"], "last_step": row["last_step"]}
        for row in ordered
    ]  # fmt: skip


def steps_of(run_id: str, name: str, labels: dict[str, str], *, is_all: bool = False) -> tuple[list[Document], bool]:
    """Return the items of a name and labels without their data, by step and rank, and whether steps were left out:
    of more than MAX_STEPS an even choice is returned. ``is_all``: with those that a newer attempt hides."""
    places = [place for place in _places(run_id, name, labels) if is_all or not place.superseded]
    places, is_thinned = _thinned(places, MAX_STEPS)
    rows: dict[int, Document] = {}
    columns = ("pk", "time", "kind", "meta", "size")
    for start in range(0, len(places), IDS_PER_QUERY):
        ids = [place.pk for place in places[start : start + IDS_PER_QUERY]]
        for row in Media.objects.filter(pk__in=ids).values(*columns):
            rows[row.pop("pk")] = row
    found = [
        {"id": place.pk, "step": place.step, "attempt": place.attempt, "rank": place.rank,
         "superseded": place.superseded, **rows[place.pk]}
        for place in places if place.pk in rows
    ]  # fmt: skip
    return found, is_thinned


def find(run_id: str, media_id: int) -> Media | None:
    if not 0 < media_id < 2**63:  # what no database has
        return None
    return Media.objects.filter(run_id=run_id, pk=media_id).first()


def content(row: Media) -> Document:
    """Return the data of an item, as JSON has it; nothing for an image, which is a file."""
    if row.kind == IMAGE:
        return {}
    data = _unpacked(row.data)
    if row.kind == TEXT:
        return {"text": data.decode()}
    if row.kind == TABLE:
        rows = [[_cell(cell) for cell in cells] for cells in msgpack.unpackb(data)]
        return {"table": {"columns": row.meta["columns"], "rows": rows}}
    histogram = _histogram(data)
    return {"histogram": {"edges": histogram.edges.tolist(), "counts": histogram.counts.tolist()}}


def histograms(run_id: str, name: str, labels: dict[str, str], at_most: int) -> Document:
    """Return the histograms of at most so many steps on common edges; those of several ranks at a step are added, and
    of very many ranks fewer steps are read."""
    places = [one for one in _places(run_id, name, labels, HISTOGRAM) if not one.superseded]
    num_ranks = max(Counter(step for step, _ in {(one.step, one.rank) for one in places}).values(), default=1)
    chosen, is_thinned = _thinned(places, max(1, min(at_most, MAX_HISTOGRAMS // num_ranks)))
    newest = {(place.step, place.rank): place.pk for place in chosen}  # of two at one step the one that came later
    found: dict[int, tuple[float, Histogram]] = {}
    ids = sorted(newest.values())
    for start in range(0, len(ids), IDS_PER_QUERY):
        rows = Media.objects.filter(pk__in=ids[start : start + IDS_PER_QUERY]).values_list("pk", "time", "data")
        found.update((pk, (time, _histogram(_unpacked(data)))) for pk, time, data in rows.iterator())
    kept = [(step, *found[pk]) for (step, _), pk in sorted(newest.items()) if pk in found]
    edges, columns = rebinned([histogram for _, _, histogram in kept])
    steps: dict[int, tuple[float, Any]] = {}
    for (step, time, _), counts in zip(kept, columns, strict=True):
        before = steps.get(step)
        steps[step] = (time, counts) if before is None else (max(time, before[0]), before[1] + counts)
    return {
        "edges": edges.tolist(),
        "steps": list(steps),
        "times": [time for time, _ in steps.values()],
        "counts": [numbers(np.round(counts, 6)) for _, counts in steps.values()],
        "thinned": is_thinned,
    }


def _places(run_id: str, name: str, labels: dict[str, str], kind: str = "") -> list[Place]:
    """Return where the items stand, by step, rank and arrival."""
    rows = Media.objects.filter(run_id=run_id, name=name, labels_key=labels_key(labels))
    if kind:
        rows = rows.filter(kind=kind)
    known = list(rows.order_by("step", "rank", "pk").values_list("pk", "step", "attempt", "rank"))
    firsts: dict[int, int] = {}
    for _, step, attempt, _ in known:
        firsts[attempt] = min(step, firsts.get(attempt, step))
    return [
        Place(pk, step, attempt, rank, any(newer > attempt and first <= step for newer, first in firsts.items()))
        for pk, step, attempt, rank in known
    ]


def _thinned(places: list[Place], at_most: int) -> tuple[list[Place], bool]:
    """Return the items of at most so many steps, evenly chosen, with the first and the last; whether any went."""
    steps = list(dict.fromkeys(place.step for place in places))
    if len(steps) <= at_most:
        return places, False
    kept = {steps[index] for index in np.linspace(0, len(steps) - 1, at_most).round().astype(int)}
    return [place for place in places if place.step in kept], True


def _histogram(data: bytes) -> Histogram:
    values = np.frombuffer(data, "<f8")
    half = values.size // 2 + 1
    return Histogram(values[:half], values[half:])


def _unpacked(data: bytes | memoryview) -> bytes:
    return zstandard.decompress(bytes(data), MAX_DATA_BYTES)


def _cell(cell: Any) -> Any:
    return text_of(cell) or cell if isinstance(cell, float) else cell

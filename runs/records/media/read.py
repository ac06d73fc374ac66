"""Reading media for the Media page and REST.

As with points the newest attempt wins: it hides older items of the same name and labels from its own first step on.
"""

import base64
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Annotated, Any, NamedTuple, TypedDict, cast

import numpy as np
import zstandard
from django.db.models import Count, Max, Min, Q
from msgspec import Meta

from runs.records.media.kinds import KINDS, Content, Histogram, histogram_of
from runs.records.media.store import DATA_PLACE, HIDDEN, META_PLACE
from runs.records.metrics.bulk import in_parts
from runs.records.metrics.codec import Floats
from runs.records.metrics.encrypted import Unreadable, reveal
from runs.records.metrics.models import Media
from runs.records.points.tables import labels_key
from trainyard.contract.base import decode
from trainyard.contract.records import MediaKind
from trainyard.grouping import grouped

MAX_COMMON_BINS = 128
MAX_STEPS = 2_000  # of one name and labels, in an answer
MAX_HISTOGRAMS = 4_000  # that one answer adds up; each takes up to 64 KB of memory
MAX_WORD_BYTES, MAX_WORDS = 80, 400  # of a text that is a word, such as a phase; of one name
WORD_KEY = ("name", "run_id", "labels_key")
MAX_DATA_BYTES = 4 * 1024 * 1024  # what one item may unpack to; a frame has 1 MiB


class MediaName(TypedDict):
    """A name with its labels and kind: how many items it has, and in which steps."""

    labels: dict[str, str]
    name: str
    kind: MediaKind
    count: int
    first_step: int
    last_step: int


class MediaItem(TypedDict):
    """An item without its data."""

    id: int
    step: int
    attempt: int
    rank: int
    superseded: Annotated[bool, Meta(description="true: a newer attempt has reached this step again")]
    time: Annotated[float, Meta(description="Unix seconds at the rank")]
    kind: MediaKind
    meta: Annotated[dict[str, Any], Meta(description="; ".join(f"{name}: {one.meta}" for name, one in KINDS.items()))]
    size: Annotated[int, Meta(description="bytes")]


class HistogramsOverTime(TypedDict):
    """Histograms of several steps on common edges."""

    edges: Annotated[list[float], Meta(description="common to all steps")]
    steps: list[int]
    times: list[float]
    counts: Annotated[list[list[float]], Meta(description="a list for each step, as long as edges less one")]
    thinned: bool


class MediaPlace(NamedTuple):
    id: int
    step: int
    attempt: int
    rank: int
    superseded: bool


class Word(NamedTuple):
    """A short text, which a run logged at this step and moment (Unix seconds)."""

    text: str
    step: int
    time: float


def media_list(run_id: str) -> list[MediaName]:
    """Return each name with its labels and kind: how many items, the first and the last step."""
    names = ("name", "labels_key", "kind")
    rows = Media.objects.filter(run_id=run_id).values(*names, "attempt")
    figures = {"count": Count("pk"), "first_step": Min("step"), "last_step": Max("step")}
    ordered = list(rows.annotate(some=Min("pk"), **figures).order_by(*names, "attempt"))
    labels: dict[int, dict[str, str]] = {}
    for some in in_parts([row["some"] for row in ordered]):
        labels.update(Media.objects.filter(pk__in=some).values_list("pk", "labels"))
    found: dict[tuple[str, ...], MediaName] = {}
    firsts = grouped(((row["name"], row["labels_key"]), (row["attempt"], row["first_step"])) for row in ordered)
    for row in ordered:
        newer = [first for attempt, first in firsts[row["name"], row["labels_key"]] if attempt > row["attempt"]]
        place = {name: row[name] for name in (*names, "attempt")}
        if min(newer, default=row["last_step"] + 1) <= row["last_step"]:  # some are hidden
            row |= Media.objects.filter(run_id=run_id, step__lt=min(newer), **place).aggregate(**figures)
        if not row["count"]:
            continue
        key = tuple(row[name] for name in names)
        own = found.setdefault(key, {
            "labels": labels[row["some"]], "name": row["name"], "kind": row["kind"], "count": 0,
            "first_step": row["first_step"], "last_step": row["last_step"],
        })  # fmt: skip
        own["count"] += row["count"]
        own["last_step"] = row["last_step"]
    return list(found.values())


def steps_of(run_id: str, name: str, labels: dict[str, str], *, is_all: bool = False) -> tuple[list[MediaItem], bool]:
    """Return the items of a name and labels without their data, by step and rank, and whether steps were left out:
    of more than MAX_STEPS an even choice is returned. ``is_all``: with those that a newer attempt hides."""
    places = [place for place in _places(run_id, name, labels) if is_all or not place.superseded]
    places, is_thinned = _thinned(places, MAX_STEPS)
    rows: dict[int, dict[str, Any]] = {}
    for ids in in_parts([place.id for place in places]):
        for row in Media.objects.filter(pk__in=ids).values("id", "time", "kind", "meta", "size"):
            rows[row["id"]] = {**row, "meta": meta_of(run_id, row["meta"])}
    found = [cast(MediaItem, place._asdict() | rows[place.id]) for place in places if place.id in rows]
    return found, is_thinned


def find(run_id: str, media_id: int) -> Media | None:
    if not 0 < media_id < 2**63:  # what no database has
        return None
    row = Media.objects.filter(run_id=run_id, pk=media_id).first()
    if row is not None:
        row.meta = meta_of(run_id, row.meta)
    return row


def meta_of(run_id: str, stored: dict[str, Any]) -> dict[str, Any]:
    """Return an item's meta; where its key is gone, the reason as ``unreadable``, and in place of the caption."""
    if HIDDEN not in stored:
        return stored
    try:
        return decode(reveal(run_id, META_PLACE, base64.b64decode(stored[HIDDEN])), dict[str, Any])
    except Unreadable as error:
        return {"unreadable": str(error), "caption": str(error)}


def content(row: Media) -> Content:
    """Return the data of an item that find() returned, as JSON has it; nothing for a file. Raises Unreadable."""
    kind = KINDS[row.kind]
    return {} if kind.formats else kind.content(row.meta, _unpacked(row.run_id, row.data))


def file_bytes(row: Media) -> bytes:
    """Return the file of an item that find() returned. Raises Unreadable."""
    if unreadable := row.meta.get("unreadable"):
        raise Unreadable(unreadable)
    return reveal(row.run_id, DATA_PLACE, bytes(row.data))


def why_unreadable(run_id: str) -> str:
    """Return why the run's newest media cannot be read; empty where they can."""
    metas = Media.objects.filter(run_id=run_id).order_by("-pk").values_list("meta", flat=True)[:1]
    return next((str(meta_of(run_id, meta).get("unreadable", "")) for meta in metas), "")


def histograms(run_id: str, name: str, labels: dict[str, str], at_most: int) -> HistogramsOverTime:
    """Return the histograms of at most so many steps on common edges; those of several ranks at a step are added, and
    of very many ranks fewer steps are read. Raises Unreadable."""
    places = [one for one in _places(run_id, name, labels, "histogram") if not one.superseded]
    num_ranks = max(Counter(step for step, _ in {(one.step, one.rank) for one in places}).values(), default=1)
    chosen, is_thinned = _thinned(places, max(1, min(at_most, MAX_HISTOGRAMS // num_ranks)))
    newest = {(place.step, place.rank): place.id for place in chosen}  # of two at one step the one that came later
    found: dict[int, tuple[float, Histogram]] = {}
    for ids in in_parts(sorted(newest.values())):
        rows = Media.objects.filter(pk__in=ids).values_list("pk", "time", "data")
        found.update((pk, (time, histogram_of(_unpacked(run_id, data)))) for pk, time, data in rows.iterator())
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
        "counts": [np.round(counts, 6).tolist() for _, counts in steps.values()],
        "thinned": is_thinned,
    }


def words(run_ids: Sequence[str], at_most: int) -> dict[tuple[str, str, str], list[Word]]:
    """Return by name, run and labels (JSON) what rank 0 of the runs, or a script without ranks, logged under the first
    names, so many at most, of which every text is a word: by step, and of a step the one that came last."""
    texts = Media.objects.filter(run_id__in=run_ids, kind="text", rank__lte=0).values_list(*WORD_KEY)
    figures = texts.annotate(largest=Max("size"), num=Count("pk")).filter(largest__lte=MAX_WORD_BYTES)
    keys = [row[:3] for row in figures.filter(num__lte=MAX_WORDS).order_by(*WORD_KEY)[:at_most]]
    is_one = reduce(or_, (Q(**dict(zip(WORD_KEY, key, strict=True))) for key in keys), Q(pk__in=[]))
    found: dict[tuple[str, ...], list[tuple[int, Word]]] = defaultdict(list)
    rows = texts.filter(is_one).order_by("step", "pk").values_list(*WORD_KEY, "attempt", "step", "time", "data")
    for *key, attempt, step, time, data in rows:
        with suppress(Unreadable):
            found[tuple(key)].append((attempt, Word(_unpacked(key[1], data).decode(), step, time)))
    return {key: _standing(found[key]) for key in keys}


def _standing(logged: Sequence[tuple[int, Word]]) -> list[Word]:
    hidden = _superseded([(attempt, word.step) for attempt, word in logged])
    return list({word.step: word for (_, word), is_out in zip(logged, hidden, strict=True) if not is_out}.values())


def _places(run_id: str, name: str, labels: dict[str, str], kind: str = "") -> list[MediaPlace]:
    """Return where the items stand, by step, rank and arrival."""
    rows = Media.objects.filter(run_id=run_id, name=name, labels_key=labels_key(labels))
    if kind:
        rows = rows.filter(kind=kind)
    known = list(rows.order_by("step", "rank", "pk").values_list("pk", "step", "attempt", "rank"))
    hidden = _superseded([(attempt, step) for _, step, attempt, _ in known])
    return [MediaPlace(*place, is_hidden) for place, is_hidden in zip(known, hidden, strict=True)]


def _superseded(places: Sequence[tuple[int, int]]) -> list[bool]:
    """Return of each attempt and step whether a newer attempt hides it."""
    firsts: dict[int, int] = {}
    for attempt, step in places:
        firsts[attempt] = min(step, firsts.get(attempt, step))
    return [any(newer > attempt and first <= step for newer, first in firsts.items()) for attempt, step in places]


def _thinned(places: list[MediaPlace], at_most: int) -> tuple[list[MediaPlace], bool]:
    """Return the items of at most so many steps, evenly chosen, with the first and the last; whether any went."""
    steps = list(dict.fromkeys(place.step for place in places))
    if len(steps) <= at_most:
        return places, False
    kept = {steps[index] for index in np.linspace(0, len(steps) - 1, at_most).round().astype(int)}
    return [place for place in places if place.step in kept], True


def _unpacked(run_id: str, data: bytes | memoryview) -> bytes:
    return zstandard.decompress(reveal(run_id, DATA_PLACE, bytes(data)), MAX_DATA_BYTES)


# Histograms with edges of their own, laid over each other on common ones. Pure.


def rebinned(histograms: Sequence[Histogram]) -> tuple[Floats, list[Floats]]:
    """Return common edges of equal bins over all of them, and the counts of each on these.

    A count is taken to be spread evenly over its bin, so the sum of each histogram's counts stays what it was.
    """
    if not histograms:
        return np.empty(0), []
    telling = [one for one in histograms if one.counts.any()] or histograms  # where all was NaN the edges mean nothing
    low = min(float(one.edges[0]) for one in telling)
    high = max(float(one.edges[-1]) for one in telling)
    bins = min(MAX_COMMON_BINS, max(one.counts.size for one in histograms))
    edges = np.linspace(low, high, bins + 1)
    return edges, [_on(edges, one) for one in histograms]


def _on(edges: Floats, histogram: Histogram) -> Floats:
    below = np.concatenate(([0.0], np.cumsum(histogram.counts)))
    counts: Floats = np.diff(np.interp(edges, histogram.edges, below))
    return np.maximum(counts, 0.0)  # a sum of many counts rounds

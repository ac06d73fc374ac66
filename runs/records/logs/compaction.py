"""Putting small chunks of a stream together, beside runs.records.points.compaction.compactor.

Lines keep their numbers, their placed times and the batches that they came with, so nobody who reads notices: a cursor
of before means the same lines after. A chunk takes in those behind it that are together as long as it: each line is
written again about log2(2,048 / lines of a batch) times.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef

from runs.records.logs.chunks import BYTES_PER_CHUNK, LINES_PER_CHUNK, ChunkPlace, Columns, decode_columns, placed
from runs.records.logs.writing import FIELDS, rows_of
from runs.records.metrics import bulk, encrypted
from runs.records.metrics.bulk import RunGone, delete_rows, in_parts
from runs.records.metrics.models import LogChunk
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.storage_keys import keyring_of_run
from trainyard.at_rest.keyring import Keyring

SMALL = {"num_lines__lt": LINES_PER_CHUNK // 2, "size__lt": BYTES_PER_CHUNK // 2}  # as the index log_small has it
FEW = 16  # so many wait before they are put together while more come
BYTES_PER_STEP = 2 * 1024 * 1024
ROWS_PER_STEP = 2_000


class _Chunk(NamedTuple):
    """A small chunk without its lines."""

    pk: int
    stream_id: int
    first_line: int
    num_lines: int
    size: int
    first_time: float


def fold_lines(run_id: str, bound: int, *, is_quiet: bool) -> bool:
    """Put some of the run's small chunks up to cursor ``bound`` together. ``is_quiet``: nothing more is coming soon.
    Returns whether it did anything. Raises RunGone."""
    rows, old, num_bytes = list[bulk.Row](), list[int](), 0
    for group in _groups(run_id, bound, is_quiet=is_quiet):
        try:
            rows += _together(run_id, group)
        except (encrypted.Unreadable, KeyProblem):  # its key is gone, or away: the chunks stay as they are
            continue
        old += [chunk.pk for chunk in group]
        num_bytes += sum(chunk.size for chunk in group)
        if num_bytes >= BYTES_PER_STEP or len(old) >= ROWS_PER_STEP:
            break
    if not old:
        return False
    with transaction.atomic(using=settings.METRICS_DATABASE):
        if delete_rows(LogChunk, old) != len(old):
            raise RunGone(run_id)
        bulk.insert(LogChunk, FIELDS, rows)
    return True


def waiting() -> list[str]:
    """Return the runs that have small chunks right behind each other: two such fit into one."""
    small = LogChunk.objects.filter(**SMALL)
    several = small.values("stream").annotate(number=Count("pk")).filter(number__gt=1).values("stream")
    behind = small.filter(stream=OuterRef("stream"), first_line=OuterRef("first_line") + OuterRef("num_lines"))
    found = small.filter(stream__in=several).filter(Exists(behind))
    return list(found.order_by("run_id").values_list("run_id", flat=True).distinct())


def _groups(run_id: str, bound: int, *, is_quiet: bool) -> Iterator[list[_Chunk]]:
    """Yield lists of neighbours that are to become one chunk each."""
    small = LogChunk.objects.filter(run_id=run_id, **SMALL)
    for place in small.values("stream").annotate(number=Count("pk")).filter(number__gt=1).order_by("stream"):
        rows = small.filter(stream=place["stream"], cursor__lte=bound).order_by("first_line")
        names = ("pk", "stream_id", "first_line", "num_lines", "size", "first_time")
        start, is_more = 0, True
        while is_more:  # those in front may stand alone for ever
            some = rows.filter(first_line__gte=start).values_list(*names)[:ROWS_PER_STEP]
            *full, last = _joined(_Chunk(*row) for row in some)
            yield from (group for group in [*full, last if is_quiet else _worth_it(last)] if len(group) > 1)
            is_more = len(some) == ROWS_PER_STEP
            start = last[-1].first_line + (len(last) > 1) if is_more else 0  # a last one alone belongs to what follows


def _joined(chunks: Iterable[_Chunk]) -> list[list[_Chunk]]:
    """Return the chunks of one stream as lists that follow each other and fit into one chunk; the last may grow."""
    groups: list[list[_Chunk]] = [[]]
    num_bytes = 0
    for chunk in chunks:
        group = groups[-1]
        if group and not (
            group[-1].first_line + group[-1].num_lines == chunk.first_line
            and chunk.first_line + chunk.num_lines - group[0].first_line <= LINES_PER_CHUNK
            and num_bytes + chunk.size <= BYTES_PER_CHUNK
        ):
            groups.append([])
            num_bytes = 0
        groups[-1].append(chunk)
        num_bytes += chunk.size + 1
    return groups


def _worth_it(group: list[_Chunk]) -> list[_Chunk]:
    """Return the newest of a group that still grows: without those that are longer than all behind them together."""
    while group and group[0].num_lines > sum(chunk.num_lines for chunk in group[1:]):
        group = group[1:]
    return group if len(group) >= FEW else []


def _together(run_id: str, group: Sequence[_Chunk]) -> list[bulk.Row]:
    parts: list[Columns] = []
    texts: list[bytes] = []
    is_hidden = False
    for ids in in_parts([chunk.pk for chunk in group]):
        rows = LogChunk.objects.filter(pk__in=ids).order_by("first_line")
        for first_line, data, text in rows.values_list("first_line", "columns", "text"):
            parts.append(decode_columns(bytes(data)))
            is_hidden = is_hidden or encrypted.is_hidden(bytes(text))
            texts += ChunkPlace(run_id, group[0].stream_id, first_line).texts(bytes(text)).data.split(b"\n")
    columns = Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if len(texts) != sum(chunk.num_lines for chunk in group):
        raise RunGone(run_id)
    order = placed(columns.times, group[0].first_time)
    keyring = keyring_of_run(run_id)
    if is_hidden and not keyring.encrypts:  # what was hidden stays so, whatever the project does now
        keyring = Keyring(max(keyring.keys), keyring.keys)
    return rows_of(run_id, group[0].stream_id, group[0].first_line, order, columns, texts, keyring)

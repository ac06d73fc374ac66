"""Storing media: what was logged at a step and is no number. Called inside the transaction of a batch.

Files are kept as they came, everything else compressed. Where the project encrypts, data and meta are hidden.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import zstandard
from django.db.models import Count, Sum

from runs.records.media.kinds import KINDS
from runs.records.metrics import encrypted
from runs.records.metrics.models import Media
from trainyard.at_rest.keyring import NO_KEYS, Keyring

LEVEL = 3  # of zstandard
HIDDEN = "hidden"  # the one name in the meta of an item that is encrypted: no kind has such a one
META_PLACE, DATA_PLACE = "media-meta", "media"  # an item is bound to its run, as output files are

Document = dict[str, Any]


class Item(NamedTuple):
    """One thing that a rank logged; ``meta`` and ``data`` as its kind checked them."""

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
    num_items: int = 0
    num_bytes: int = 0


def totals_of(run_id: str) -> Totals:
    found = Media.objects.filter(run_id=run_id).aggregate(number=Count("pk"), size=Sum("size"))
    return Totals(found["number"], found["size"] or 0)


def write_media(
    run_id: str,
    *,
    attempt: int,
    cursor: int,
    items: Iterable[tuple[int, Item]],
    totals: Totals,
    at_most: Totals,
    keyring: Keyring = NO_KEYS,
) -> tuple[int, int]:
    """Store items, each with its rank, and count them in ``totals``; encrypted where the keyring encrypts. Returns how
    many were stored, and how many were not since the run has ``at_most``."""
    rows, num_lost = [], 0
    for rank, item in items:
        size = len(item.data)
        if totals.num_items >= at_most.num_items or totals.num_bytes + size > at_most.num_bytes:
            num_lost += 1
            continue
        totals.num_items += 1
        totals.num_bytes += size
        data = item.data if KINDS[item.kind].formats else zstandard.compress(item.data, LEVEL)
        rows.append(
            Media(
                run_id=run_id, name=item.name, labels=item.labels, labels_key=item.labels_key, kind=item.kind,
                step=item.step, time=item.time, attempt=attempt, rank=rank, cursor=cursor, size=size,
                meta=_hidden(keyring, run_id, item.meta), data=encrypted.hide(keyring, run_id, DATA_PLACE, data),
            )
        )  # fmt: skip
    Media.objects.bulk_create(rows)
    return len(rows), num_lost


def _hidden(keyring: Keyring, run_id: str, meta: Document) -> Document:
    if not keyring.encrypts:
        return meta
    hidden = encrypted.hide(keyring, run_id, META_PLACE, json.dumps(meta).encode())
    return {HIDDEN: base64.b64encode(hidden).decode()}

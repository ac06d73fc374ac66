"""Rules for a record beyond its type, and records as the store takes them. All raise BadRecord."""

import json
from collections import OrderedDict

from msgspec.structs import replace

from runs.records.checkpoints.read import OFF
from runs.records.media.kinds import KINDS
from runs.records.media.store import Item
from runs.records.metrics.bulk import storable
from runs.records.metrics.progress import METRIC_RULES, ReportedFact
from runs.records.points.tables import Rows, SeriesGroup
from runs.values.run_config import RunDescription, why_not_kept
from trainyard.contract import records
from trainyard.contract.base import JsonObject, clean, decode, to_builtins
from trainyard.contract.records import META, BadRecord, decode_part

KEPT_CHARACTERS = 4_000_000  # of names that are remembered, a hundred for each name on top
MAX_FACTS_BYTES = 60 * 1024
MAX_WHY = 1_000  # characters; what is beyond is cut off


class Heads:
    """The same names and labels come with every frame of a producer: they are checked once, and one object since."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, SeriesGroup] = OrderedDict()
        self._weight = 0

    def head(self, names: tuple[str, ...], labels: dict[str, str]) -> SeriesGroup:
        """Return the head with these names and labels."""
        key = names, tuple(labels.items())
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make_head(names, labels)
            self._weight += _weight(found)
            while self._weight > KEPT_CHARACTERS:
                self._weight -= _weight(self._kept.popitem(last=False)[1])
        return found


def _weight(head: SeriesGroup) -> int:
    return sum(100 + len(name) for name in head.names) + 1000


_heads = Heads()


def make_head(names: tuple[str, ...], labels: dict[str, str]) -> SeriesGroup:
    clean = tuple(storable(name) for name in names)
    if len(set(clean)) < len(clean):
        twice = next(name for place, name in enumerate(clean) if name in clean[:place])
        raise BadRecord(f"names: {twice[:60]!r} stands twice in one group")
    return SeriesGroup(clean, {storable(key): storable(value) for key, value in labels.items()})


def rows(group: records.Group) -> Rows:
    """Return the points of a group; whether their times are finite is checked for many groups at once."""
    head = _heads.head(group.names, group.labels)
    steps, times, values = group.steps, group.times, group.values
    if len(steps) % 8 or len(times) != len(steps) or len(values) != len(steps) * len(head.names):
        found = f"{len(steps) / 8:g} steps, {len(times) / 8:g} times and {len(values) / 8:g} values"
        raise BadRecord(f"a group of {len(head.names)} names: its columns have {found}")
    return Rows(head, steps, times, values)


def checkpoint(record: records.Checkpoint) -> records.Checkpoint:
    if record.step is None and record.state != OFF:
        raise BadRecord("step: a checkpoint has one (it is None)")
    degrees = {storable(axis): number for axis, number in record.degrees.items()}
    return replace(record, degrees=degrees, why=storable(record.why)[:MAX_WHY], memory=storable(record.memory))


def facts(record: records.Facts) -> ReportedFact:
    try:
        text = json.dumps(record.data, allow_nan=False)
        data = decode(text, JsonObject)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRecord(f"data: facts are what JSON can hold: {error!s:.200}") from None
    if len(text) > MAX_FACTS_BYTES:
        raise BadRecord(f"data: facts have at most {MAX_FACTS_BYTES} bytes, not {len(text)}")
    return ReportedFact(record.name, data, record.at)


def description(record: records.Description) -> tuple[RunDescription, ReportedFact | None]:
    """Return what the script says of its run, and its rules of metrics as facts."""
    config = clean(record.config)
    if words := why_not_kept(config):
        raise BadRecord(f"config: {words}")
    own = [storable(text) or None for text in (record.notes, record.group, record.job_type)]
    said = RunDescription(config or None, [storable(tag) for tag in record.tags] or None, *own)
    if not record.metrics:
        return said, None
    return said, facts(records.Facts(name=METRIC_RULES, data=to_builtins(record.metrics), at=0.0))


def media(record: records.Media) -> Item:
    head = make_head((record.name,), record.labels)
    meta, data = KINDS[record.kind].check(decode_part(record.meta, META[record.kind], "meta"), record.data)
    return Item(head.names[0], head.labels, head.labels_key, record.kind, record.step, record.at, meta, data)

"""What a door has translated and not yet passed on, as records of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainyard.contract.base import JsonObject
from trainyard.contract.records import MAX_STEP, AnyRecord, Description
from trainyard.formats.media import Media
from trainyard.sdk.buffers import Groups, Labels, Rows, is_name, records_of
from trainyard.sdk.media_queue import Logged, encoded


class Gathering:
    """Points by series and media in their order. ``refused`` counts, for each reason, what has no counterpart."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._groups: Groups = {}
        self._others: list[AnyRecord] = []
        self._config: JsonObject = {}

    def rows(self, name: str, labels: Labels = ()) -> Rows:
        """Return where points of a series are added until the next ``take``: a step, a time and a value each."""
        key = (name,), labels
        rows = self._groups.get(key)
        if rows is None:
            rows = self._groups[key] = Rows()
        return rows

    def media(self, name: str, step: int, time: float, media: Media, labels: Labels = ()) -> None:
        """Add one; what cannot be kept is counted with its reason."""
        if media.problem or not 0 <= step <= MAX_STEP or not is_name(name, self.refuse):
            self.refuse(name, media.problem or f"{media.kind} at the step {step}")
            return
        record = encoded(Logged(name, labels, step, time, media), self.refuse)
        if record is not None:
            self._others.append(record)

    def config(self, values: JsonObject) -> None:
        """Add to the configuration. Each record has all of it, since a later one takes the place of those before."""
        self._config = {**self._config, **values}
        self._others.append(Description(config=self._config))

    def take(self) -> Iterator[AnyRecord]:
        """Yield what was gathered, each record small enough for a frame, and forget it."""
        groups, self._groups = self._groups, {}
        others, self._others = self._others, []
        for record, _ in records_of(groups, self.refuse):
            yield record
        yield from others

    def refuse(self, name: str, why: str) -> None:
        self.refused[f"{name}: {why}" if name else why] += 1

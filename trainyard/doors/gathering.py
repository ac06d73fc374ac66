"""What a door has translated and not yet passed on, as records of the contract."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.contract.records import MAX_STEP, AnyRecord, Logs, Stream
from trainyard.formats.media import Media
from trainyard.sdk.buffers import Groups, Labels, Rows, is_name, records_of
from trainyard.sdk.description import Stated
from trainyard.sdk.media_queue import Logged, encoded

MAX_LINE = 16_000  # characters
MAX_LINES = 100_000  # characters of a record, which stays far below what a frame holds


class Gathering:
    """Points by series and media in their order. ``refused`` counts, for each reason, what has no counterpart."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._groups: Groups = defaultdict(Rows)
        self._others: list[AnyRecord] = []
        self._config: JsonObject = {}
        self._num_chars = 0  # of the newest record of lines

    def rows(self, name: str, labels: Labels = ()) -> Rows:
        """Return where points of a series are added until the next ``take``: a step, a time and a value each."""
        return self._groups[(name,), labels]

    def point(self, name: str, step: int, time: float, value: float, labels: Labels = ()) -> None:
        self.rows(name, labels).add(step, time, (value,))

    def media(self, name: str, step: int, time: float, media: Media, labels: Labels = ()) -> None:
        """Add one; what cannot be kept is counted with its reason."""
        if media.problem or not 0 <= step <= MAX_STEP or not is_name(name, self.refuse):
            self.refuse(name, media.problem or f"{media.kind} at the step {step}")
            return
        record = encoded(Logged(name, labels, step, time, media), self.refuse)
        if record is not None:
            self._others.append(record)

    def config(self, values: JsonObject, labels: Labels = ()) -> None:
        """Add to the configuration. Each record has all of it, since a later one takes the place of those before."""
        self._config = {**self._config, **beside(self._config, values, labels)}
        self.describe(self._config)

    def describe(self, config: JsonObject, **stated: Any) -> None:
        """Take what was stated about the run in the place of what was: fields of ``trainyard.sdk.description.Stated``.
        What is too long is cut, and counted."""
        made = Stated(lambda: None)
        made.config.update(config, allow_change=True)
        for name, value in stated.items():
            setattr(made, name, value)
        if (record := made.record(self.refuse)) is not None:
            self._others.append(record)

    def line(self, stream: Stream, at: float, text: str) -> None:
        last = self._others[-1] if self._others else None
        line = (at, text[:MAX_LINE].encode("utf-8", "replace").decode())
        if isinstance(last, Logs) and last.stream == stream and self._num_chars < MAX_LINES:
            last.lines.append(line)
            self._num_chars += len(text)
        else:
            self._others.append(Logs(rank=-1, stream=stream, lines=[line]))
            self._num_chars = len(text)

    def take(self) -> Iterator[AnyRecord]:
        """Yield what was gathered, each record small enough for a frame, and forget it."""
        groups, self._groups = self._groups, defaultdict(Rows)
        others, self._others = self._others, []
        for record, _ in records_of(groups, self.refuse):
            yield record
        yield from others

    def refuse(self, name: str, why: str) -> None:
        self.refused[f"{name}: {why}" if name else why] += 1


def beside(known: Mapping[str, Any], values: JsonObject, labels: Labels) -> JsonObject:
    """Return what a folder states: below the folder's name where it contradicts what is known already."""
    differs = any(name in known and known[name] != value for name, value in values.items())
    return {"_".join(word.replace(".", "_") for _, word in labels): values} if labels and differs else values

"""JSON columns by type: checks, findings, failures and restarts, and notices of limits. Nothing of Django."""

from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from trainyard.contract.base import WireStruct, convert
from trainyard.contract.causes import CauseClass

T = TypeVar("T")


class Typed(Generic[T]):
    """A JSON column of a row by its type, read anew each time; None where the column is None."""

    def __init__(self, column: str, kind: type[T]) -> None:
        self._column, self._kind = column, kind

    def __get__(self, row: object, owner: object = None) -> T | None:
        document = getattr(row, self._column, None)
        return None if document is None else convert(document, self._kind)


class AlwaysTyped(Typed[T]):
    """The same of a column that always says something: None in it is a document with nothing but defaults."""

    def __get__(self, row: object, owner: object = None) -> T:
        document = getattr(row, self._column)
        return convert({} if document is None else document, self._kind)


class SlowRank(WireStruct, kw_only=True):
    """A rank that slows the others down, as it was when it was looked at last."""

    rank: int
    node: str = ""  # name
    node_id: str = ""
    times: float = 1.0  # as slow as the others in ``phase``
    phase: Annotated[str, Meta(description="where it loses its time; empty: in several phases")] = ""
    excess_s: float = 0.0  # that it takes longer, in each step
    since_step: int = 0
    last_step: int = 0
    at: float = 0.0  # Unix seconds: when it was found


class MetricAlarm(WireStruct, kw_only=True):
    """Values of a series that broke a rule: one for values in a row."""

    metric: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    kind: Literal["nan", "spike"] = "nan"
    first_step: int = 0
    last_step: int = 0
    num_values: int = 1
    value: Annotated[float | None, Meta(description="the first; null: it is no finite number")] = None
    word: str = ""  # of a value that is no finite number: NaN, Infinity or -Infinity
    usual: Annotated[float | None, Meta(description="the median before it")] = None
    at: Annotated[float, Meta(description="Unix seconds")] = 0.0  # by the rank
    action: str = "notify"
    sentence: str = ""


class IdleMark(WireStruct, kw_only=True):
    """Accelerators of a run that are hardly used, as they were when they were looked at last."""

    percent: float  # of use
    since: float  # Unix seconds: when it was marked
    stops_at: float | None = None  # then its cluster stops the run; None: never
    sentence: str = ""


class Rewind(WireStruct, kw_only=True):
    """A decision to go back to ``to_step`` and to leave out the batches of some steps, both ends included.

    It is about the attempts up to ``fence``: their checkpoints behind ``to_step`` are not used any more, and the steps
    are counted as the attempt with that fence did.
    """

    fence: int
    to_step: int
    first: int
    last: int
    at: float = 0.0  # Unix seconds
    by: str = ""  # who asked for it; empty: a rule
    rule: str = ""  # the metric of the rule


# The result of one check of a node, as it is stored, shown and served.


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"  # nothing is placed there for which it matters


class Check(WireStruct, kw_only=True):
    """One check: a sentence, and the number behind it beside the limit that it was held against."""

    name: str
    state: CheckState
    sentence: str
    node: str  # name
    peer: str = ""  # name of another node
    value: float | None = None
    limit: float | None = None
    unit: str = ""  # of both: bytes, s, B/s


class FirstPrediction(WireStruct):
    """What a run was told first, in Unix seconds. ``played_s``: the wait that plays of the queue expected then, before
    it was corrected by what came of earlier predictions."""

    made_at: float
    at: float
    low: float
    high: float
    played_s: float


class StartPrediction(WireStruct):
    """Unix seconds at which a waiting run is expected to start, and the ends of a band that holds four of five."""

    made_at: float
    at: float
    low: float
    high: float
    first: FirstPrediction | None = None
    ends: float | None = None  # as is expected of a run that starts ``at``; None: nobody can say


class QuietHours(WireStruct):
    """Hours of each day in which a person is sent no notices."""

    begins: str  # such as 22:00
    ends: str
    zone: str
    spares_errors: bool = False  # these are sent all the same

    def until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours end that it is now; None where it is none of them."""
        at = f"{now.astimezone(ZoneInfo(self.zone)):%H:%M}"
        before_end, after_begin = at < self.ends, at >= self.begins
        is_within = before_end and after_begin if self.begins < self.ends else before_end or after_begin
        return next_time(self.ends, self.zone, now) if is_within else None


def next_time(clock: str, zone: str, now: datetime) -> datetime:
    """Return when the clocks of the zone show that time, such as 22:00, next."""
    local = now.astimezone(ZoneInfo(zone))
    found = datetime.combine(local, time.fromisoformat(clock), local.tzinfo)
    return (found if found > local else found + timedelta(days=1)).astimezone(UTC)


class LimitNotice(WireStruct):
    """A limit of a project that was used to four fifths at that time."""

    at: datetime
    sentence: str


class LeftOutNode(WireStruct, kw_only=True):
    """A node that a run is kept away from for a while."""

    node: str  # id
    name: str
    why: str
    until: float  # Unix seconds
    is_excluded: bool = True  # False: it is taken where there is no other
    cause: str = ""  # the class of the failure, where it was one


class AttemptFailure(WireStruct, kw_only=True):
    """The failure of an attempt, as the policy of restarts reads it. Times are Unix seconds."""

    fence: int
    cause: CauseClass
    at: float
    signature: str = ""  # equal where two attempts failed in the same way; empty where that proves nothing
    node: str = ""  # id of the node where it happened
    node_name: str = ""
    broke_at: float = 0.0  # when it happened, as far as anybody can know
    step: int | None = None  # the last that it reached
    kept_step: int | None = None  # of the newest checkpoint by then
    memory_step: int | None = None  # of the newest state that ranks had reported to be in memory
    left_out: list[LeftOutNode] = msgspec.field(default_factory=list)  # by rules of the log

    @property
    def newest_step(self) -> int | None:
        """The step of the newest state that a restart can go on from."""
        return max((one for one in (self.kept_step, self.memory_step) if one is not None), default=None)


class Recovery(WireStruct, kw_only=True):
    """The restarts of a run since a person started it last. ``number`` 0: there was none."""

    failed_fence: int = 0  # of the attempt that failed last
    after_fence: int = 0  # attempts up to this one were started before, and do not count
    number: int = 0  # of the last restart, among those that count
    total: int = 0  # all restarts, also those that do not count any more
    max: int = 0
    cause: CauseClass = CauseClass.UNKNOWN
    failed_at: float = 0.0  # when it was known
    broke_at: float = 0.0  # when it happened, as far as anybody can know; 0: as failed_at
    due_at: float = 0.0
    step: int | None = None  # the last before the failure
    from_step: int | None = None  # of the checkpoint that was there to go on from; None: it starts anew
    is_script: bool = False  # whose script may restore by itself: without ``from_step`` nobody knows where it starts
    # What the last restart went on from: "storage", or "the memory of" nodes. "memory" until its ranks have reported.
    source: str = ""
    left_out: list[LeftOutNode] = msgspec.field(default_factory=list)
    back_after_s: float | None = None  # from the failure to the first step that had not been trained before

    def left_out_at(self, now: float) -> list[LeftOutNode]:
        return [one for one in self.left_out if one.until > now]

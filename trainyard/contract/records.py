"""Records: what the processes of a run write into their spools, and what travels to the server.

Each kind of record is one struct; its tag is the record's kind. A frame adds who wrote it and its number (see
``trainyard.spooling.frames``). Times are Unix seconds.

Readers ignore fields that they do not know. A server that is older than a kind of record keeps such records as dead
letters, counts them and goes on; nothing waits for them.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, field

from trainyard.contract.base import JsonObject, Whole, WireStruct, prepared, problem_in

MAX_SEQUENCE = 2**62
MAX_STEP = 2**63 - 1
MAX_NAME_CHARS = 500
MAX_LABELS = 32
MAX_NAMES = 20_000  # of one group; no run has more series than these
MAX_INTEGER = 2**31 - 1
MAX_DEGREES = 16
MAX_SECONDS = 1e9
YEAR_3000 = 32_503_680_000.0
LARGEST = 1.7976931348623157e308

MAX_BINS = 4_096
MAX_BIN_COUNT = 2**53  # up to here each whole number has its own float, and sums stay finite
MAX_ROWS = 10_000
MAX_COLUMNS = 200
MAX_COLUMN = 500  # characters of a column's name

MAX_CONFIG_BYTES = 1_000_000  # of a description
MAX_TAGS = 50
MAX_NOTES = 20_000

Role = Literal["rank", "supervisor", "node", "script"]
Stream = Literal["stdout", "stderr", "build"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr", "build")  # build: what is prepared before the ranks start
CheckpointState = Literal["saved", "deleted", "invalid", "restored", "anew", "off"]
MediaKind = Literal["image", "histogram", "text", "table", "audio", "video"]
TextFormat = Literal["plain", "markdown", "html"]

Producer = Annotated[str, Meta(min_length=32, max_length=32)]  # a random UUID as hex digits
Sequence = Annotated[int, Meta(ge=1, lt=MAX_SEQUENCE)]
Rank = Annotated[int, Meta(ge=-1, le=MAX_INTEGER)]  # -1: none
MetricName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
LabelText = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Labels = Annotated[dict[LabelText, LabelText], Meta(max_length=MAX_LABELS)]
Moment = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]  # finite
PastMoment = Annotated[float, Meta(ge=0, le=YEAR_3000)]
Duration = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Whole31 = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Whole62 = Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)]
BinCount = Annotated[int, Meta(ge=0, le=MAX_BIN_COUNT)]


class BadRecord(ValueError):
    """Something that is no record, or none that can be stored; the message names the field and the value."""


class Record(WireStruct, tag_field="t"):
    """The base of all kinds of records."""


class Begin(Record, tag="begin", kw_only=True, omit_defaults=True):
    """The first record of a producer. ``local`` and what follows it exist outside of Trainyard only."""

    rank: Rank = -1
    node: str = ""  # name
    pid: int = 0
    at: float = 0.0
    role: Role = "rank"
    name: str = ""  # what the script called its run
    local: str = ""  # id of its local run
    script: str = ""
    host: str = ""
    restart: int = 0  # how often the launcher had started its processes before
    project: str = ""  # the project that the script asked for


class Group(WireStruct, array_like=True):
    """n rows of m values. Numbers are packed little-endian, 8 bytes each."""

    labels: Labels
    names: Annotated[tuple[MetricName, ...], Meta(max_length=MAX_NAMES)]  # m
    steps: bytes  # n int64
    times: bytes  # n float64
    values: bytes  # n * m float64, row by row: the m values of one call of `log` lie together


class Points(Record, tag="points"):
    groups: list[Group] = field(name="g")


class Logs(Record, tag="logs"):
    """Lines that a rank printed."""

    rank: Rank
    stream: Stream
    lines: list[tuple[Moment, str]]
    offset: int = 0  # in the rank's log file, behind these lines: a supervisor that follows goes on there


class LossCounts(WireStruct, omit_defaults=True):
    lost_points: Whole62 = 0  # there was no room in memory
    bad_values: Whole62 = 0  # they are no numbers
    spool_limit: Whole62 = 0  # points and lines beyond the limit of the spool


class Lost(Record, tag="lost"):
    """Losses of the producer since its last such record."""

    counts: LossCounts


class Checkpoint(Record, tag="checkpoint", kw_only=True, omit_defaults=True):
    """State of a checkpoint. None: not known."""

    state: CheckpointState  # "anew": none could be restored; "off": none can be kept
    step: Whole62 | None = None  # with `fence`: which it is
    fence: Whole31 | None = None
    run: Annotated[str, Meta(pattern=r"^[a-z0-9]{0,12}\Z")] = ""  # whose, if another's
    bytes: Whole62 | None = None
    num_files: Whole31 | None = None
    world_size: Whole31 | None = None
    # Numbers of ranks by mesh axis.
    degrees: Annotated[
        dict[Annotated[str, Meta(max_length=40)], Annotated[int, Meta(ge=1, le=MAX_INTEGER)]],
        Meta(max_length=MAX_DEGREES),
    ] = {}
    took_s: Duration | None = None
    stall_s: Duration | None = None  # for which training stood still
    at: PastMoment | None = None
    why: str = ""
    missing: bool = False  # what is called invalid was only not found there
    memory: Annotated[str, Meta(max_length=300)] = ""  # names of nodes: it is about a state in their memory
    key_version: Whole31 = 0  # of the project's storage key that it is encrypted with; 0: it is not


class Facts(Record, tag="facts", kw_only=True):
    """Facts that a rank found out about its run. A later one of the same attempt, name and rank takes its place."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,40}\Z")]
    data: JsonObject  # at most 60 KiB of JSON
    at: Moment


class Media(Record, tag="media", kw_only=True):
    """An image, histogram, text, table or sound, logged at a step. ``meta`` and ``data`` are those of its kind: see
    META."""

    name: MetricName
    labels: Labels = {}
    step: Whole
    at: Moment
    kind: MediaKind
    meta: msgspec.Raw = msgspec.Raw(b"\x80")  # the struct in META, encoded
    data: bytes


class Caption(WireStruct):
    """Part of the meta of a file that the server reads: the rest it takes from the file itself."""

    caption: str = ""


class ImageMeta(Caption):
    """The data is the file of a PNG, JPEG, WebP or GIF."""

    width: int = 0
    height: int = 0
    format: str = ""


class AudioMeta(Caption):
    """The data is a WAV."""

    sample_rate: int = 0  # Hz
    channels: int = 0
    duration_s: float = 0.0
    format: str = ""


class VideoMeta(Caption):
    """The data is the file of an MP4 or WebM."""

    format: str = ""


class HistogramMeta(WireStruct, omit_defaults=True):
    """The data is n + 1 edges and n counts as float64, little-endian."""

    bins: Annotated[int, Meta(ge=1, le=MAX_BINS)]  # n
    num_not_finite: BinCount | None = None
    count: BinCount | None = None


class TextStyle(WireStruct):
    """Part of a ``TextMeta`` that the server reads: it counts the characters itself."""

    format: TextFormat = "plain"


class TextMeta(TextStyle):
    """The data is UTF-8."""

    chars: int = 0


class TableMeta(WireStruct, omit_defaults=True):
    """The data is a ``Rows`` in MessagePack."""

    columns: Annotated[list[Annotated[str, Meta(max_length=MAX_COLUMN)]], Meta(max_length=MAX_COLUMNS)]
    rows: int = 0
    num_rows: BinCount | None = None  # of the whole, where it was cut
    num_columns: BinCount | None = None


Cell = str | int | float | bool | None
Rows = Annotated[list[list[Cell]], Meta(max_length=MAX_ROWS)]
META: dict[MediaKind, type[WireStruct]] = {
    "image": Caption, "histogram": HistogramMeta, "text": TextStyle, "table": TableMeta, "audio": Caption,
    "video": Caption,
}  # fmt: skip


class MetricRule(WireStruct, omit_defaults=True):
    """How a metric is shown: over which other one, by which statistic, and which way is better."""

    x: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    summary: Literal["", "last", "min", "max", "mean", "best"] = ""
    goal: Literal["", "min", "max"] = ""


class Description(Record, tag="description", kw_only=True, omit_defaults=True):
    """What a script states about its run. Each holds all that was stated so far by its process."""

    config: JsonObject = {}
    tags: Annotated[list[str], Meta(max_length=MAX_TAGS)] = []
    notes: Annotated[str, Meta(max_length=MAX_NOTES)] = ""
    group: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    job_type: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    metrics: dict[MetricName, MetricRule] = {}


class Damaged(Record, tag="damaged", kw_only=True):
    """In place of a frame that a spool could not give back."""

    why: str = ""
    data: bytes = b""  # what was in its place, or the beginning of it


class End(Record, tag="end", kw_only=True):
    """The last record of a producer."""

    at: float = 0.0
    reason: str = ""  # "finish", "exit", "lost", "interrupt", or "error: " and what it was


AnyRecord = Begin | Points | Logs | Lost | Checkpoint | Facts | Media | Description | Damaged | End
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyRecord))

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyRecord] = msgspec.msgpack.Decoder(prepared(AnyRecord))


def encode_record(record: object) -> bytes:
    """Return a record without producer and sequence, or a part of one that is encoded on its own, in MessagePack."""
    return _encoder.encode(record)


def decode_record(body: bytes | memoryview) -> AnyRecord:
    """Return the record that the body of a frame holds. Raises BadRecord."""
    try:
        found: AnyRecord = _decoder.decode(body)
        return found
    except msgspec.ValidationError as error:
        raise BadRecord(_reason(body, str(error), AnyRecord)) from error
    except UnicodeDecodeError as error:
        raise BadRecord(f"not text: {error}") from error
    except Exception as error:  # damaged, nested too deeply: each means the same, these bytes are no record
        raise BadRecord(f"not MessagePack: {error}") from error


def decode_part(data: bytes | msgspec.Raw, kind: Any, what: str) -> Any:
    """Return a part of a record that is encoded on its own, such as a medium's ``meta``. Raises BadRecord."""
    try:
        return msgspec.msgpack.decode(data, type=prepared(kind))
    except msgspec.ValidationError as error:
        raise BadRecord(f"{what}: {_reason(bytes(data), str(error), kind)}") from error
    except Exception as error:  # as in decode_record
        raise BadRecord(f"{what} is no MessagePack: {error}") from error


def record_of(kind: str, values: JsonObject) -> AnyRecord:
    """Return the record of that kind with these fields, as a script gives them. Raises BadRecord."""
    try:
        found: AnyRecord = msgspec.convert({**values, "t": kind}, prepared(AnyRecord))
        return found
    except msgspec.ValidationError as error:
        raise BadRecord(problem_in(str(error), {**values, "t": kind}, AnyRecord)) from error


def _reason(body: bytes | memoryview, message: str, kind: Any) -> str:
    """Return msgspec's message with the field and its value."""
    try:
        value = msgspec.msgpack.decode(body)
    except Exception:  # keys that no dict can have, text that is none: then the message alone has to do
        return message
    found = value.get("t") if isinstance(value, dict) else None
    if kind == AnyRecord and isinstance(found, str) and found not in KINDS:
        return f"frames of kind {found[:60]!r} are unknown here"
    return problem_in(message, value, kind)

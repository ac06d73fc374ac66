"""Documents of a session: a person's wish, the order to its node, and its end."""

import struct
from enum import IntEnum
from typing import Annotated

import msgspec

from trainyard.contract.base import Id, WireStruct
from trainyard.contract.limits import cut
from trainyard.contract.orders import Locked

MAX_WORDS = 1_000
MAX_COMMAND_CHARACTERS = 32_000
DEFAULT_LIMIT_S = 600.0  # of a command; a terminal or a port ends with its attempt, or when nobody uses it
MAX_LIMIT_S = 24 * 3600.0
MAX_WAIT_S = 120.0
IDLE_LIMIT_S = 15 * 60.0  # without a key typed, or a byte to a forwarded port
DEFAULT_OUTPUT_BYTES = 64 << 20  # of a command
MAX_OUTPUT_BYTES = 4 << 30

WINDOW_BYTES = 256 * 1024  # that are on the way at most, in either direction
FRAME_BYTES = 16 * 1024  # of data in one frame
NUMBER, CHANNEL, SIZE = struct.Struct(">Q"), struct.Struct(">I"), struct.Struct(">HH")  # in payloads of frames
KEEP_EVERY_S = 4.0  # the server keeps a session alive, and its node reports that it lives
ABANDONED_S = 30.0  # a session ends where its person has been away for so long

Size = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
Word = Annotated[str, msgspec.Meta(max_length=MAX_COMMAND_CHARACTERS)]


class FrameKind(IntEnum):
    """The first byte of a frame."""

    # Towards the node
    INPUT = 1
    END_OF_INPUT = 2
    SIZE = 3  # rows and columns, two bytes each
    TAKEN = 4  # the number of the last frame that the person has seen, eight bytes
    KEEP = 5
    END = 6
    OPEN = 7  # a connection to the port: its number, four bytes
    # In both directions, of a forwarded port: the connection's number, and for DATA what it carries
    DATA = 8
    CLOSE = 9
    # From the node
    OUTPUT = 20  # one byte for the stream, then what was printed
    BEGUN = 21
    ENDED = 22  # a SessionEnd
    ALIVE = 23
    CREDIT = 24  # how many bytes of INPUT and DATA it has passed on since the beginning, eight bytes


FROM_PEOPLE = frozenset(kind for kind in FrameKind if kind < FrameKind.OUTPUT) - {FrameKind.KEEP}


class SessionCommand(WireStruct, kw_only=True):
    """A command beside a rank, or a port of it."""

    rank: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    command: Annotated[list[Word], msgspec.Meta(max_length=MAX_WORDS)] = []  # none: a shell
    terminal: bool = False
    rows: Size = 24
    columns: Size = 80
    input: bool = False  # a command without a terminal reads what the person sends
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None  # forward this one: no command
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0  # for a process that listens at the port
    time_limit_s: Annotated[float, msgspec.Meta(gt=0, le=MAX_LIMIT_S)] | None = None
    output_limit_bytes: Annotated[int, msgspec.Meta(gt=0, le=MAX_OUTPUT_BYTES)] | None = None


class SessionWish(SessionCommand, kw_only=True):
    """The first message of a person's socket: a new session, or one to go on with."""

    session: Id = ""  # go on with this one…
    since: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # …after this frame


class SessionOrder(SessionCommand, kw_only=True):
    """Command that a node is to start beside a rank. It travels locked: a command may name secrets."""

    session: Id
    attempt: Id
    run: Id
    fence: int


class Attach(Locked):
    """The command ATTACH; locked is a ``SessionOrder``."""

    at: float = 0.0  # Unix seconds


class SessionEnd(WireStruct, kw_only=True):
    """End of a session: with the exit code of its command, or by something else, which the sentence says."""

    exit_code: int | None = None
    signal: int | None = None
    code: str = ""  # for programs: "exited", "time-limit", "output-limit", "idle", "abandoned", "refused", …
    sentence: str = ""
    bytes_in: int = 0
    bytes_out: int = 0

    def __post_init__(self) -> None:
        self.code, self.sentence = self.code[:40], cut(self.sentence)

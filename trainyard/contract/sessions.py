"""Documents of a session (a wish, the order to its node, its end), and its frames, which server and node alone read."""

import secrets
import struct
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trainyard.contract.base import Id, WireStruct
from trainyard.contract.limits import cut
from trainyard.contract.orders import Locked
from trainyard.contract.seals import BadSeal

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


FROM_PEOPLE = frozenset(
    (
        FrameKind.INPUT,
        FrameKind.END_OF_INPUT,
        FrameKind.SIZE,
        FrameKind.TAKEN,
        FrameKind.END,
        FrameKind.OPEN,
        FrameKind.DATA,
        FrameKind.CLOSE,
    )
)


class SessionWish(WireStruct, kw_only=True):
    """The first message of a person's socket: a new session, or one to go on with."""

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
    session: Id = ""  # go on with this one…
    since: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # …after this frame


class SessionOrder(WireStruct, kw_only=True):
    """Command that a node is to start beside a rank. It travels locked: a command may name secrets."""

    session: Id
    attempt: Id
    run: Id
    fence: int
    rank: int
    command: list[str] = []
    terminal: bool = False
    rows: int = 24
    columns: int = 80
    input: bool = False
    port: int | None = None
    wait_s: float = 0.0
    time_limit_s: float | None = None
    output_limit_bytes: int | None = None


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


PLACE = struct.Struct(">IQ")
NUMBER, CHANNEL, SIZE = struct.Struct(">Q"), struct.Struct(">I"), struct.Struct(">HH")  # in payloads
NONCE_BYTES = 12


class Frame(NamedTuple):
    link: int
    number: int
    kind: FrameKind
    payload: bytes


class FrameLock:
    """Locks and opens the frames of one direction of one session."""

    def __init__(self, node_key: str, session: str, direction: Literal["up", "down"]) -> None:
        self._scope = f"session:{session}:{direction}".encode()
        key = HKDF(SHA256(), length=32, salt=None, info=b"trainyard " + self._scope).derive(bytes.fromhex(node_key))
        self._cipher = AESGCM(key)

    def lock(self, frame: Frame) -> bytes:
        place, nonce = PLACE.pack(frame.link, frame.number), secrets.token_bytes(NONCE_BYTES)
        content = bytes((frame.kind,)) + frame.payload
        return place + nonce + self._cipher.encrypt(nonce, content, self._scope + place)

    def unlock(self, data: bytes) -> Frame:
        """Return the frame. Raises BadSeal for what is none of this session and direction."""
        start = PLACE.size + NONCE_BYTES
        try:
            link, number = PLACE.unpack_from(data)
            content = self._cipher.decrypt(data[PLACE.size : start], data[start:], self._scope + data[: PLACE.size])
            return Frame(link, number, FrameKind(content[0]), content[1:])
        except (InvalidTag, ValueError, IndexError, struct.error) as error:
            raise BadSeal("a frame of the session does not open") from error


class FrameOrder:
    """Takes the frames of one direction in their order: those of the newest link, each once, without a gap."""

    def __init__(self) -> None:
        self._link = -1
        self._number = 0

    def takes(self, frame: Frame) -> bool:
        """Return whether the frame counts. Raises BadSeal where one before it is missing."""
        if frame.link < self._link:
            return False
        if frame.link > self._link:
            self._link, self._number = frame.link, 0
        if frame.number <= self._number:
            return False
        if frame.number != self._number + 1:
            raise BadSeal("a frame of the session was lost on the way")
        self._number = frame.number
        return True

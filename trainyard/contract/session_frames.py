"""Frames of a session on their way through Valkey: only the server and the node of the session can read or write them.

A frame is encrypted with a key made from the node's for this session and direction, and bound to its place: the link
(which connection of the person it belongs to) and its number. A frame that is repeated, left out or put elsewhere does
not open, or not in its turn.
"""

import secrets
import struct
from typing import Literal, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trainyard.contract.seals import BadSeal
from trainyard.contract.sessions import FrameKind

PLACE = struct.Struct(">IQ")
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

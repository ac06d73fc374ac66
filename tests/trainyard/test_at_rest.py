"""Encrypted files: what was written opens, from any place; what was changed, cut or taken elsewhere does not."""

from __future__ import annotations

import io
import itertools
import secrets
from collections.abc import Callable

import pytest

from trainyard.at_rest.chunks import (
    CHUNK_BYTES,
    HEADER,
    TAG_BYTES,
    CannotDecrypt,
    DecryptedFile,
    encrypted_bytes,
    encrypted_pieces,
    encrypted_size,
)
from trainyard.at_rest.keyring import NO_KEYS, Keyring, NoKeys, keyring_of

KEYRING = Keyring(2, {1: b"1" * 32, 2: b"2" * 32})
PLACE = "checkpoint|run|1|2|rank-0.safetensors"
SEALED = CHUNK_BYTES + TAG_BYTES


def decrypt(data: bytes, keyring: Keyring = KEYRING, place: str = PLACE) -> bytes:
    return DecryptedFile(io.BytesIO(data), keyring, place).read()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_was_written_opens_whatever_its_size(size: int) -> None:
    data = secrets.token_bytes(size)
    hidden = encrypted_bytes(KEYRING, PLACE, data)
    assert (len(hidden) == encrypted_size(size) and data[:64] not in hidden) or size < 64
    assert decrypt(hidden) == data


def test_parts_of_any_length_give_the_same_file_and_any_range_reads() -> None:
    data = secrets.token_bytes(3 * CHUNK_BYTES + 77)
    borders = [0, 5, 5, CHUNK_BYTES - 1, CHUNK_BYTES + 3, len(data)]
    parts = [memoryview(data)[start:end] for start, end in itertools.pairwise(borders)]
    opened = DecryptedFile(io.BytesIO(b"".join(encrypted_pieces(KEYRING, PLACE, parts))), KEYRING, PLACE)
    assert opened.size == len(data)
    for start, length in [(0, 10), (CHUNK_BYTES - 3, 7), (CHUNK_BYTES, 2 * CHUNK_BYTES), (len(data) - 2, 9)]:
        assert opened.read(start, length) == data[start : start + length]


def exchanged(data: bytes) -> bytes:
    head, chunks = data[: HEADER.size], data[HEADER.size :]
    return head + chunks[SEALED : 2 * SEALED] + chunks[:SEALED] + chunks[2 * SEALED :]


OTHER = encrypted_bytes(KEYRING, PLACE, bytes(2 * CHUNK_BYTES + 9))
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": lambda data: data[: SEALED // 2] + bytes([data[SEALED // 2] ^ 1]) + data[SEALED // 2 + 1 :],
    "a bit of the salt flipped": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "the chunk size changed": lambda data: data[:12] + b"\x00\x00\x08\x00" + data[16:],
    "cut off behind a chunk": lambda data: data[: HEADER.size + SEALED],
    "cut off in a chunk": lambda data: data[:-20],
    "only its header": lambda data: data[: HEADER.size],
    "less than its header": lambda data: data[:20],
    "chunks exchanged": exchanged,
    "a chunk left out": lambda data: data[: HEADER.size] + data[HEADER.size + SEALED :],
    "a chunk twice": lambda data: data[: HEADER.size + SEALED] + data[HEADER.size :],
    "a chunk of another file": lambda data: data[: HEADER.size + SEALED] + OTHER[HEADER.size + SEALED :],
    "appended to": lambda data: data + b"x" * 100,
    "of another key": lambda data: data[:8] + b"\x01\x00\x00\x00" + data[12:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_changed_does_not_open(damage: str) -> None:
    hidden = encrypted_bytes(KEYRING, PLACE, b"\x07" * (2 * CHUNK_BYTES + 9))
    with pytest.raises(CannotDecrypt):
        decrypt(DAMAGES[damage](hidden))


def test_an_older_key_opens_and_another_place_or_a_missing_key_does_not() -> None:
    older = encrypted_bytes(Keyring(1, KEYRING.keys), PLACE, b"older")
    assert decrypt(older) == b"older"
    with pytest.raises(CannotDecrypt, match="belongs to another place"):
        decrypt(older, place=PLACE.replace("|2|", "|4|"))
    with pytest.raises(CannotDecrypt, match="version 1 of its project's key; given were keys of versions 2"):
        decrypt(older, Keyring(2, {2: b"2" * 32}))
    with pytest.raises(CannotDecrypt, match="given were no key"):
        decrypt(older, NO_KEYS)


def test_keys_travel_as_a_document_and_another_document_is_refused_without_a_quote() -> None:
    assert keyring_of(KEYRING.to_text()) == KEYRING
    for text in ("", "{}x", '{"newest":1,"keys":[{"version":1,"key":"c2hvcnQ="}]}', '{"newest":3,"keys":[]}'):
        with pytest.raises(NoKeys) as error:
            keyring_of(text)
        assert "c2hvcnQ" not in str(error.value)
    assert "2222" not in repr(KEYRING)

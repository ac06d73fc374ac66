from __future__ import annotations

import numpy as np
from tokenizers import Tokenizer

from workers.training.data import corpus
from workers.training.data.corpus import BYTES_AS_TEXT, chunks, encoded, lengths_of, train_tokenizer


def as_array(text: bytes) -> corpus.Bytes:
    return np.frombuffer(text, np.uint8)


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    """Return what tokens are, without the library's own decoder."""
    back = {shown: byte for byte, shown in enumerate(BYTES_AS_TEXT)}
    return bytes(back[shown] for number in ids for shown in tokenizer.id_to_token(number))


def encode(tokenizer: Tokenizer, text: bytes) -> list[int]:
    return np.concatenate(list(encoded(tokenizer, as_array(text), np.uint16))).tolist()


def test_any_bytes_come_back() -> None:
    tokenizer = train_tokenizer(as_array(b"in the yard, in the yard\n" * 50), 280)
    generator = np.random.default_rng(1)
    for text in (b"in the yard \xc3\xa4 \xff\xfe\x00", "€ 🚂 日本\n".encode() * 3, generator.bytes(5000), b""):
        assert bytes_of(tokenizer, encode(tokenizer, text)) == text


def test_what_comes_often_becomes_one_token() -> None:
    tokenizer = train_tokenizer(as_array(b"in the yard, in the yard\n" * 50), 280)
    assert len(encode(tokenizer, b" yard")) == 1
    assert lengths_of(tokenizer)[encode(tokenizer, b" yard")].tolist() == [5]


def test_a_text_longer_than_a_chunk_is_cut_behind_its_lines() -> None:
    text = b"a line of text\n" * 40_000
    found = list(chunks(as_array(text)))
    assert len(found) == 3 and b"".join(found) == text
    assert all(chunk.endswith(b"\n") and len(chunk) <= corpus.CHUNK_BYTES for chunk in found)
    tokenizer = train_tokenizer(as_array(text), 270)
    assert encode(tokenizer, text) == encode(tokenizer, b"a line of text\n") * 40_000

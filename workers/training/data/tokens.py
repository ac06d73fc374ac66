"""Tokens that are pairs of bytes merged over and over: byte-pair encoding (Gage 1994; Sennrich et al. 2016).

By the library ``tokenizers``, on bytes, so that nothing is unknown. What is no UTF-8, which that library cannot take,
becomes one token for each byte: text and tokens are always the same bytes.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ids = np.ndarray[Any, np.dtype[Any]]

TRAINED_ON_BYTES = 32 * 2**20  # at most: more changes few merges
CHUNK_BYTES = 2**18
CHUNKS_AT_ONCE = 8  # as many threads can have work
NOT_TEXT = re.compile("([\udc80-\udcff]+)")  # how "surrogateescape" shows bytes that are no UTF-8


def train_tokenizer(text: Bytes, vocabulary: int) -> Tokenizer:
    """Return a tokenizer with at most ``vocabulary`` tokens: 256 bytes, and what merging pairs of them gave. The same
    text gives the same one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    initial_alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=initial_alphabet, show_progress=False)
    # Spread over all of the text, for its start may be of one kind.
    every = -(-len(text) // TRAINED_ON_BYTES)
    chosen = (chunk for number, chunk in enumerate(chunks(text)) if number % every == 0)
    tokenizer.train_from_iterator((chunk.decode(errors="ignore") for chunk in chosen), trainer)
    return tokenizer


def encoded(tokenizer: Tokenizer, text: Bytes, dtype: Any) -> Iterator[Ids]:
    """Yield the tokens of ``text``, some at a time."""
    vocabulary = tokenizer.get_vocab()
    byte_ids = np.array([vocabulary[shown] for shown in BYTES_AS_TEXT], dtype)
    parts: list[str] = []
    for number, chunk in enumerate(chunks(text), start=1):
        parts += NOT_TEXT.split(chunk.decode(errors="surrogateescape"))
        if number % CHUNKS_AT_ONCE == 0:
            yield _ids(tokenizer, byte_ids, parts)
            parts = []
    yield _ids(tokenizer, byte_ids, parts)


def lengths_of(tokenizer: Tokenizer) -> Ids:
    """Return how many bytes each token is, int64."""
    vocabulary = tokenizer.get_vocab()
    lengths = np.zeros(max(vocabulary.values()) + 1, np.int64)
    for token, number in vocabulary.items():
        lengths[number] = len(token)  # each byte is shown as one character
    return lengths


def chunks(text: Bytes) -> Iterator[bytes]:
    """Yield ``text`` in chunks that end with a line, where there are lines."""
    start = 0
    while start < len(text):
        chunk = text[start : start + CHUNK_BYTES].tobytes()
        if start + len(chunk) < len(text):
            chunk = chunk[: chunk.rfind(b"\n") + 1] or chunk
        start += len(chunk)
        yield chunk


def _ids(tokenizer: Tokenizer, byte_ids: Ids, parts: list[str]) -> Ids:
    """Return the tokens of parts that are text and, every second, not."""
    texts = iter(tokenizer.encode_batch_fast([part for part in parts if not NOT_TEXT.match(part)]))
    found = [
        byte_ids[np.frombuffer(part.encode(errors="surrogateescape"), np.uint8)]
        if NOT_TEXT.match(part)
        else np.array(next(texts).ids, byte_ids.dtype)
        for part in parts
    ]
    return np.concatenate([np.empty(0, byte_ids.dtype), *found])


def _bytes_as_text() -> list[str]:
    """Return how byte-level BPE writes each byte (Radford et al. 2019, section 2.2): as the Latin-1 character where
    that can be seen, the others in order from U+0100 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in seen else chr(next(others)) for byte in range(256)]


BYTES_AS_TEXT = _bytes_as_text()

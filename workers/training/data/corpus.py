"""Text as tokens in the node's cache: an array to train on, one to validate on, mapped into memory."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from trainyard.spec.sections.data import TextData
from workers.training.data.problems import DataProblem
from workers.training.data.progress import DataProgress
from workers.training.data.sources.text import TextSource, open_text
from workers.training.data.storage.cache import cached, read_facts, release, write_facts
from workers.training.data.storage.npz_arrays import NpyWriter, open_array

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Tokens = np.ndarray[Any, np.dtype[Any]]

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


def encoded(tokenizer: Tokenizer, text: Bytes, dtype: Any) -> Iterator[Tokens]:
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


def lengths_of(tokenizer: Tokenizer) -> Tokens:
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


def _ids(tokenizer: Tokenizer, byte_ids: Tokens, parts: list[str]) -> Tokens:
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


NUM_BYTES = 256  # the vocabulary of bytes
TOKENIZER = "tokenizer.json"
LAYOUT = 2  # a change of what an entry holds, or of the split, changes it


@dataclass(frozen=True, slots=True)
class Corpus:
    """Tokens to train on and to validate on, from different text, and a digest that names them.

    ``lengths`` are the bytes of each token, int64; ``tokenizer`` is the file that says which they are, where they are
    not bytes.
    """

    train: Tokens
    validation: Tokens
    vocabulary: int
    lengths: Tokens
    digest: str
    num_bytes: int  # of both
    tokenizer: Path | None = None


def load_corpus(data: TextData) -> Corpus:
    """Return the tokens of ``task.data``, built in the node's cache first where they are not there yet.

    Raises DataProblem for what cannot be read or kept.
    """
    text = open_text(data)
    if data.tokens == "bytes":
        entry, lengths, vocabulary, tokenizer = bytes_of(text), np.ones(NUM_BYTES, np.int64), NUM_BYTES, None
    else:
        vocabulary = data.vocabulary
        entry = pairs_of(text, vocabulary)
        lengths, tokenizer = open_array(entry / "lengths.npy"), entry / TOKENIZER
    facts = read_facts(entry)
    return Corpus(
        train=open_array(entry / "train.npy"),
        validation=open_array(entry / "validation.npy"),
        vocabulary=vocabulary,
        lengths=lengths,
        digest=facts["digest"],
        num_bytes=facts["num_bytes"],
        tokenizer=tokenizer,
    )


def bytes_of(text: TextSource) -> Path:
    """Return the cache's entry with the bytes of ``text``."""

    def build(folder: Path) -> None:
        digests = hashlib.sha256(), hashlib.sha256()
        progress = DataProgress(f"reads {text.name}", text.size_bytes)
        with (
            NpyWriter(folder / "train.npy", np.uint8) as train,
            NpyWriter(folder / "validation.npy", np.uint8) as validation,
        ):
            for piece in text.pieces():
                progress.add(len(piece.text))
                digests[piece.validates].update(piece.text)
                (validation if piece.validates else train).append(np.frombuffer(piece.text, np.uint8))
        if not train.num_rows or not validation.num_rows:
            words = "too few to train on some and to validate on others: add more"
            raise DataProblem(f"{text.name} has {train.num_rows + validation.num_rows} bytes of text, {words}")
        digest = hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()
        write_facts(folder, {"digest": digest, "num_bytes": train.num_rows + validation.num_rows})

    return cached(f"bytes {LAYOUT} of {text.key}", build, needed_bytes=text.size_bytes)


def pairs_of(text: TextSource, vocabulary: int) -> Path:
    """Return the cache's entry with the text as BPE tokens, and the tokenizer that was made for it."""

    def build(folder: Path) -> None:
        dtype = np.uint16 if vocabulary <= 2**16 else np.uint32
        entry = bytes_of(text)
        tokenizer = train_tokenizer(open_array(entry / "train.npy"), vocabulary)
        as_json = tokenizer.to_str(pretty=True)
        (folder / TOKENIZER).write_text(as_json)
        np.save(folder / "lengths.npy", lengths_of(tokenizer))
        progress = DataProgress(f"cuts {text.name} into tokens", None, "tokens")
        for name in ("train.npy", "validation.npy"):
            with NpyWriter(folder / name, dtype) as writer:
                for ids in encoded(tokenizer, open_array(entry / name), dtype):
                    progress.add(len(ids))
                    writer.append(ids)
        facts = read_facts(entry)
        digest = hashlib.sha256((facts["digest"] + as_json).encode()).hexdigest()
        write_facts(folder, {**facts, "digest": digest})
        release(entry)

    return cached(f"bpe {vocabulary} {LAYOUT} of {text.key}", build)

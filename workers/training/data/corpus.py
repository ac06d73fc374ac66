"""Text as tokens in the node's cache: an array to train on, one to validate on, mapped into memory."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainyard.spec.sections.data import TextData
from workers.training.data.problems import DataProblem
from workers.training.data.progress import DataProgress
from workers.training.data.sources.text import TextSource, open_text
from workers.training.data.storage.arrays import NpyWriter, open_array
from workers.training.data.storage.cache import cached, read_facts, release, write_facts

Tokens = np.ndarray[Any, np.dtype[Any]]

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
        from workers.training.data import tokens  # only to build: a rank that finds the entry needs no library for it

        dtype = np.uint16 if vocabulary <= 2**16 else np.uint32
        entry = bytes_of(text)
        tokenizer = tokens.train_tokenizer(open_array(entry / "train.npy"), vocabulary)
        as_json = tokenizer.to_str(pretty=True)
        (folder / TOKENIZER).write_text(as_json)
        np.save(folder / "lengths.npy", tokens.lengths_of(tokenizer))
        progress = DataProgress(f"cuts {text.name} into tokens", None, "tokens")
        for name in ("train.npy", "validation.npy"):
            with NpyWriter(folder / name, dtype) as writer:
                for ids in tokens.encoded(tokenizer, open_array(entry / name), dtype):
                    progress.add(len(ids))
                    writer.append(ids)
        facts = read_facts(entry)
        digest = hashlib.sha256((facts["digest"] + as_json).encode()).hexdigest()
        write_facts(folder, {**facts, "digest": digest})
        release(entry)

    return cached(f"bpe {vocabulary} {LAYOUT} of {text.key}", build)

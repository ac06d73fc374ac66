"""Short random identifiers: what a person can read aloud and nobody can enumerate."""

import secrets
import zlib

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without i, l, o, 0 and 1
LENGTH = 10  # 49 bits


def new_id() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def shard_of(run_id: str, num_shards: int) -> int:
    """Return which part of the stream a new run's records take, from 0 up: the same for the same id, evenly spread."""
    return zlib.crc32(run_id.encode()) % num_shards

"""Short random identifiers: what a person can read aloud and nobody can enumerate."""

from __future__ import annotations

import secrets

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without i, l, o, 0 and 1
LENGTH = 10  # 49 bits


def new_id() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))

"""Bytes as a hostile sender may choose them: random ones, and messages that were valid before something was changed.

``SECURITY_EXAMPLES`` (12; 10,000 in `make fuzz`) is how many there are for each entry point, ``SECURITY_SEED`` (0)
what they are made from. Seed and count are printed, and what fails is shown as small as it could be made.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

EXAMPLES = int(os.environ.get("SECURITY_EXAMPLES", "12"))
SEED = int(os.environ.get("SECURITY_SEED", "0"))
STILL_S = 120.0  # no single message takes so long, however busy the machine is
WORK_S = 10.0  # of the processor

DEEP = 100_000
NASTY = [
    b"", b"\0", b"[" * DEEP, b'{"a":' * DEEP, b"\x91" * DEEP, b"\x81\xa1a" * DEEP, b"9" * 5000, b'{"at":1e400}',
    b'{"at":' + b"9" * 400 + b"}", b'"\\ud800"', b"\xff\xfe\x00", b"NaN", b"null", b"[]",
    b'{"at":NaN}', b"\xc1", b"\xdf\xff\xff\xff\xff",
]  # fmt: skip
ODD: list[Any] = [
    None, True, -1, 0, 2**31, 2**53,
    2**63, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan"), "", "\0", "\ud800",
    "x" * 100_000, "../../etc", [], {}, [[]] * 300, {"a": {"a": {}}}, [None] * 5000,
]  # fmt: skip


def fuzz(examples: st.SearchStrategy[Any], check: Callable[[Any], object], what: str, *, at_once: int = 1) -> None:
    """Call ``check`` with each example, or with lists of ``at_once``. Fails for what it raises, and where it stands
    still. One that held is not tried again: a third are the same few nasty ones."""
    print(f"\n{what}: {EXAMPLES} examples, seed {SEED}")
    held: set[int] = set()
    if at_once > 1:
        examples = st.lists(examples, min_size=at_once, max_size=at_once)

    @seed(SEED)
    @settings(
        max_examples=-(-EXAMPLES // at_once),
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @given(examples)
    def one(example: Any) -> None:
        if (key := hash(repr(example))) in held:
            return
        began, work = time.monotonic(), time.process_time()
        check(example)
        assert time.monotonic() - began < STILL_S and time.process_time() - work < WORK_S, "it stood still"
        held.add(key)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)  # of examples that are long, in place of what they found
        one()
    print(f"{what}: {len(held) * at_once} different ones held")


def mutated(*valid: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes: nasty ones, random ones, and these with a part cut, doubled, or put in the place of another."""
    edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=12)), min_size=1, max_size=4)
    changed = st.builds(_edited, st.sampled_from(valid), edits)
    return st.one_of(st.sampled_from(NASTY), st.binary(max_size=300), changed)


def _edited(data: bytes, edits: Sequence[tuple[float, int, bytes]]) -> bytes:
    for where, count, new in edits:
        place = int(where * len(data))
        data = data[:place] + new + data[place + count :]
    return data


def changed(document: Any) -> st.SearchStrategy[Any]:
    """Return the document with one to three of its values replaced by odd ones, at any depth."""
    paths = list(_paths(document))
    changes = st.lists(st.tuples(st.sampled_from(paths), st.sampled_from(ODD) | st.integers() | st.text(max_size=20)),
                       min_size=1, max_size=3)  # fmt: skip
    return changes.map(lambda found: _replaced(document, found))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, part in inside for one in _paths(part, (*path, key)))]


def _replaced(document: Any, changes: Sequence[tuple[tuple[Any, ...], Any]]) -> Any:
    for path, new in changes:
        document = _with(document, path, new)
    return document


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(value, dict) and first in value:
        return {**value, first: _with(value[first], rest, new)}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        return [*value[:first], _with(value[first], rest, new), *value[first + 1 :]]
    return value

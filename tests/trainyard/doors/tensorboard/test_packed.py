"""Numbers that NumPy reads many at once are those that the parser of any message reads, whatever lies between them."""

from __future__ import annotations

import io
import math
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, summary_pb2

from tests.fuzzing import fuzz
from trainyard.contract.records import Points
from trainyard.doors.gathering import Gathering
from trainyard.doors.tensorboard.event_files import pieces, record
from trainyard.doors.tensorboard.events import Translator

Read = tuple[dict[str, list[tuple[int, float, str]]], Counter[str]]
TAGS = (
    "a",
    "loss",
    "train/loss",
    "train/accuracy",
    "layer.0/" + "deep/" * 20 + "norm",
    "layer.1/" + "deep/" * 20 + "norm",
)
STEPS = st.one_of(st.integers(0, 5), st.sampled_from([127, 128, 16_383, 16_384, 2**40, 2**56, 2**62, -1]))
TIMES = st.sampled_from([0.0, 5.0, 1.7e9, math.nan, math.inf])
NUMBERS = st.floats(width=32)


def event(at: float, step: int, tag: str, **value: Any) -> bytes:
    made = summary_pb2.Summary.Value(tag=tag, **value)
    return record(
        event_pb2.Event(wall_time=at, step=step, summary=summary_pb2.Summary(value=[made])).SerializeToString()
    )


def read(data: bytes, *, is_packed: bool) -> Read:
    gathering = Gathering()
    translator = Translator(gathering)
    for piece in pieces(
        io.BufferedReader(io.BytesIO(data)), len(data), 0, translator.take_packed if is_packed else None
    ):
        assert not is_packed or piece.end < 70_000 or len(piece.bodies) < 1_000  # the others were read at once
        translator.take(piece.bodies)
        gathering.refused.update(f"{damage.offset}: {damage.why}" for damage in piece.damages)
    found: dict[str, list[tuple[int, float, str]]] = {}
    for one in gathering.take():
        for group in one.groups if isinstance(one, Points) else ():
            columns = (
                memoryview(column).cast(kind)
                for kind, column in zip("qdd", (group.steps, group.times, group.values), strict=True)
            )
            found.setdefault(group.names[0], []).extend((s, t, repr(v)) for s, t, v in zip(*columns, strict=True))
    return {name: sorted(rows) for name, rows in found.items()}, gathering.refused


BEGINNING = b"".join(event(5.0, step, tag, simple_value=0.5) for tag in TAGS for step in (0, 1)) * 300
OTHER = (
    event(5.0, 1, "a", histo=summary_pb2.HistogramProto(min=0, max=1, bucket_limit=[1.0], bucket=[1.0]))
    + event(5.0, 2, "long", tensor={"dtype": 2, "double_val": [1.5] * 300})
)  # fmt: skip


def test_records_that_are_alike_are_read_as_one_by_one() -> None:
    number = st.builds(lambda at, step, tag, value: event(at, step, tag, simple_value=value), TIMES, STEPS,
                       st.sampled_from([*TAGS, "new"]), NUMBERS)  # fmt: skip
    records = st.lists(st.one_of(number, number, st.just(OTHER)), max_size=30)

    def check(made: list[bytes]) -> None:
        data = BEGINNING + b"".join(made) * 3
        one_by_one, packed = read(data, is_packed=False), read(data, is_packed=True)
        assert packed == one_by_one

    fuzz(records, check, "event files")


def test_a_changed_byte_costs_the_same_points_as_one_by_one() -> None:
    data = bytearray(BEGINNING + event(5.0, 3, "loss", simple_value=0.25) * 200)

    def check(change: tuple[int, int]) -> None:
        place, bits = change
        data[place] ^= bits
        try:
            one_by_one, packed = read(bytes(data), is_packed=False), read(bytes(data), is_packed=True)
        finally:
            data[place] ^= bits
        assert packed == one_by_one and one_by_one[1].total() == 1

    fuzz(st.tuples(st.integers(len(data) - 9_000, len(data) - 1), st.integers(1, 255)), check, "damaged event files")

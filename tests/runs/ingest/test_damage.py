"""What comes damaged, twice, too early, too much or at the wrong time: it is counted on its run."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from runs.ingest import troubles
from runs.ingest.commit import Committed, Source, commit
from runs.ingest.memory import Memory
from runs.ingest.validation import rules
from runs.ingest.validation.records import MAX_DAMAGED, incoming
from runs.records.metrics import progress
from runs.records.metrics.models import DeadLetter, Producer, Series, Telemetry
from runs.records.points.tables import SeriesGroup
from tests.spools import Spool, some_points
from trainyard.contract.records import BadRecord
from trainyard.spooling import frames as records

pytestmark = pytest.mark.django_db(databases="__all__")

NODE = Source("node1", "node-a")


def hand_in(data: bytes, memory: Memory | None = None) -> Committed:
    return commit("run1", fence=1, source=NODE, batch=incoming(data), memory=memory)


def counted() -> dict[str, int]:
    found: dict[str, int] = Telemetry.objects.get(run_id="run1").troubles
    return found


def flipped(frame: bytes, place: int = -1) -> bytes:
    broken = bytearray(frame)
    broken[place] ^= 1
    return bytes(broken)


def test_a_run_without_trouble_counts_none() -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 3))
    hand_in(spool.bytes)
    assert counted() == {}


def test_repeated_frames_and_gaps_are_counted() -> None:
    spool = Spool()
    frames = [spool.begin(), *(spool.points(some_points(step, 1)) for step in range(3))]
    hand_in(frames[0] + frames[1])
    hand_in(frames[0] + frames[1] + frames[3])
    assert counted() == {"repeated": 2, "gap": 1}


def test_what_a_producer_lost_is_counted_once_however_often_it_says_so() -> None:
    spool = Spool()
    spool.begin()
    frame = spool.add("lost", counts={"lost_points": 3, "bad_values": 1})
    hand_in(spool.bytes)
    hand_in(frame)
    spool.add("lost", counts={"lost_points": 2, "spool_limit": 0})
    hand_in(spool.frames[-1])
    assert counted() == {"lost_points": 5, "bad_values": 1, "repeated": 1}


def test_points_of_more_series_than_a_run_may_have_are_counted_and_the_others_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runs.ingest.memory.MAX_SERIES_PER_RUN", 3)
    columns = struct.pack("<2q", 1, 2), struct.pack("<2d", 1.0, 2.0), struct.pack("<8d", *range(8))
    spool = Spool()
    memory = Memory()
    hand_in(spool.add("points", g=[[{}, ["a", "b", "c", "d"], *columns]]), memory)
    hand_in(spool.points(some_points(3, 5), name="e") + spool.points(some_points(3, 1), name="b"), memory)
    assert sorted(Series.objects.values_list("name", "count")) == [("a", 2), ("b", 3), ("c", 2)]
    assert counted() == {"series_limit": 2 + 5}
    assert Telemetry.objects.get().num_points == 7


def test_a_hundred_thousand_names_make_no_more_rows_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.ingest.memory.MAX_SERIES_PER_RUN", 200)
    spool = Spool()
    memory = Memory()
    for first in range(0, 100_000, 10_000):
        names = [f"name-{number}" for number in range(first, first + 10_000)]
        columns = struct.pack("<q", first), struct.pack("<d", 1.0), bytes(8 * len(names))
        hand_in(spool.add("points", g=[[{}, names, *columns]]), memory)
    assert Series.objects.count() == 200
    assert counted() == {"series_limit": 99_800}


def test_lines_beyond_what_a_run_may_log_are_counted_and_those_before_are_kept(settings: Any) -> None:
    settings.LOG_LIMIT_BYTES = 100
    spool = Spool()
    memory = Memory()
    for _ in range(3):
        hand_in(spool.logs([(1.0, "x" * 20), (2.0, "y" * 20)]), memory)
    hand_in(spool.logs([(3.0, "z" * 20)]), Memory())  # as after a restart: what is stored is counted again
    hand_in(spool.logs([(4.0, "z")]), Memory())
    assert Telemetry.objects.get().num_lines == 5
    assert counted() == {"log_limit": 3}


def test_a_clock_that_jumps_is_counted_and_its_points_are_stored() -> None:
    now = time.time()
    spool = Spool()
    memory = Memory()
    for number, at in enumerate((now, now + 1, now - 3600, now - 3599, now + 7200, now + 7201, now - 10)):
        hand_in(spool.points([(number, at, 0.0)]), memory)
    assert counted() == {"clock_jump": 3}
    assert Telemetry.objects.get().num_points == 7


def test_old_times_are_no_jump() -> None:
    spool = Spool()
    hand_in(spool.points([(1, 1000.0, 0.0), (2, 1e9, 0.0)]) + spool.points([(3, 1e9, 0.0)], name="y"))
    assert counted() == {}


def test_a_damaged_last_frame_that_says_whose_it_is_does_not_leave_its_producer_unfinished() -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 1))
    hand_in(spool.bytes)
    hand_in(flipped(spool.end()))
    assert progress.watermarks("run1") == {spool.producer: 3}
    assert counted() == {"bad_frame": 1}
    letter = DeadLetter.objects.get()
    assert (letter.producer, letter.sequence) == (spool.producer, 3)


def test_a_damaged_frame_that_says_what_cannot_be_is_not_believed() -> None:
    spool, unknown = Spool(), Spool()
    spool.begin()
    hand_in(spool.bytes)
    later = [spool.points(some_points(step, 1)) for step in range(2)]
    unknown.begin()
    for _ in range(2):  # with each resend
        hand_in(flipped(later[1]) + flipped(unknown.bytes))
    assert progress.watermarks("run1") == {spool.producer: 1}
    assert counted() == {"bad_frame": 2}
    assert list(Producer.objects.values_list("producer", flat=True)) == [spool.producer]


def test_what_a_node_found_damaged_on_its_disk_counts_as_seen() -> None:
    spool = Spool()
    spool.begin()
    frame = spool.add("damaged", why="checksum differs", data=b"\0\1")
    spool.end()
    hand_in(spool.bytes)
    assert progress.watermarks("run1") == {spool.producer: 3}
    assert counted() == {"bad_frame": 1}
    letter = DeadLetter.objects.get()
    assert "checksum differs" in letter.reason and bytes(letter.data) == frame


def test_bad_begin_and_end_frames_leave_a_producer_complete() -> None:
    spool = Spool()
    spool.add("begin", rank="zero")
    spool.points(some_points(1, 1))
    spool.add("ende")
    hand_in(spool.bytes)
    assert progress.is_complete("run1", {spool.producer: 3})
    assert counted() == {"refused_points": 2}


@pytest.mark.parametrize("garbage", [records.HEADER.pack(8, 1) + b"\xc1" * 8, bytes(8)], ids=["frames", "zeros"])
def test_garbage_is_a_bounded_number_of_letters(garbage: bytes) -> None:
    found = incoming(garbage * 1000)
    assert len(found) == MAX_DAMAGED + 1
    assert sum(len(item.raw) for item in found) == 1000 * len(garbage)
    hand_in(garbage * 1000)
    assert not Producer.objects.exists()


def test_names_and_labels_that_come_again_are_the_same_object_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "KEPT_CHARACTERS", 5000)
    heads = rules.Heads()
    first = heads.head(("a", "b"), {"gpu": "0"})
    assert isinstance(first, SeriesGroup) and heads.head(("a", "b"), {"gpu": "0"}) is first
    assert heads.head(("a", "b"), {}) is not first
    for number in range(10):
        heads.head((f"n{number}",), {})
    assert heads.head(("a", "b"), {"gpu": "0"}) is not first
    assert len(heads._kept) < 6


@pytest.mark.parametrize("names", [("a", "a"), ("a\0", "a\ufffd")], ids=str)
def test_a_name_that_stands_twice_in_a_group_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(BadRecord, match="stands twice"):
        rules.Heads().head(names, {})


@pytest.mark.parametrize(
    ("names", "labels", "reason"),
    [
        ([{}], {}, "g.0.1.0: Expected `str`, got `object` (it is '{}')"),
        (["a"], None, "g.0.0: Expected `object`, got `None` (it is 'None')"),
        (["a"] * 20_001, {}, "g.0.1: Expected `array` of length <= 20000"),
        (["a"], {"k": {}}, "g.0.0.k: Expected `str`, got `object` (it is '{}')"),
    ],
    ids=["a name", "labels", "too many names", "a label"],
)
def test_names_and_labels_of_another_type_are_refused_by_their_field_and_value(
    names: object, labels: object, reason: str
) -> None:
    [frame] = incoming(Spool().add("points", g=[[labels, names, b"", b"", b""]]))
    assert frame.record is None and frame.problem.startswith(reason)


def test_jumps_of_a_clock() -> None:
    far = troubles.CLOCK_JUMP_S + 1
    assert troubles.jumps((0.0, 10.0), float("-inf"), 1000.0) == (0, 10.0)
    assert troubles.jumps((0.0, far, 0.0), 0.0, 1000.0) == (1, 0.0)
    assert troubles.jumps((2000.0, 2000.0), 0.0, 1000.0) == (1, 2000.0)

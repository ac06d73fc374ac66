from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.ingest import commit as commit_module
from runs.ingest.commit import Committed, Source, commit
from runs.ingest.validation.records import incoming
from runs.records.metrics import progress
from runs.records.metrics.models import Block, DeadLetter, Producer, Segment, Series, Telemetry
from runs.records.points.charts.series import raw
from runs.records.points.tables import merged
from runs.values.ids import new_id
from tests.series import series_data
from tests.spools import Spool, packed, some_points
from trainyard.spooling import frames as records

pytestmark = pytest.mark.django_db(databases="__all__")

NODE = Source("node1", "node-a")


def hand_in(data: bytes, run: str = "run1", fence: int = 1, source: Source = NODE) -> Committed:
    return commit(run, fence=fence, source=source, batch=incoming(data))


def stored(run: str = "run1") -> Counter[tuple[float, int]]:
    """How often each (value, step) is in the store, hidden or not."""
    return Counter(
        pair
        for curve in raw(run, attempts="all")
        for pair in zip(curve.columns["value"].tolist(), curve.columns["step"].tolist(), strict=True)
    )


def make_spool(num_frames: int, value: float = 0.5) -> Spool:
    """Frame k holds the one point of step k; the first is the begin record, the last the end record."""
    spool = Spool()
    spool.begin()
    for number in range(2, num_frames):
        spool.points([(number, 1000.0 + number, value)])
    spool.end()
    return spool


def check_exactly_once(spools: Iterable[Spool], batches: list[list[tuple[int, int]]]) -> None:
    """Hand in the batches of (spool, frame) and compare with what a list would remember."""
    spools = list(spools)
    run = new_id()  # hypothesis seeds `random` anew for each example
    watermarks = [0] * len(spools)
    for batch in batches:
        hand_in(b"".join(spools[which].frames[index] for which, index in batch), run)
        for which in range(len(spools)):
            delivered = {index + 1 for owner, index in batch if owner == which}
            while watermarks[which] + 1 in delivered:
                watermarks[which] += 1
    found = progress.watermarks(run)
    assert [found.get(spool.producer, 0) for spool in spools] == watermarks
    expected = {
        (float(number), step): 1
        for number, (spool, watermark) in enumerate(zip(spools, watermarks, strict=True))
        for step in range(2, min(watermark, len(spool.frames) - 1) + 1)
    }
    assert stored(run) == Counter(expected)


deliveries = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=1, max_size=9), min_size=1, max_size=12
)


@given(deliveries)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_whatever_order_and_how_often_frames_come_each_point_is_stored_once(
    batches: list[list[tuple[int, int]]],
) -> None:
    check_exactly_once([make_spool(7, 0.0), make_spool(7, 1.0)], batches)


def test_the_check_above_goes_red_without_deduplication(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: commit_module._Commit, names: set[str]) -> tuple[dict[str, Producer], set[str]]:
        rows, foreign = remembering(self, names)
        for row in rows.values():
            row.watermark = 0
        return rows, foreign

    remembering = commit_module._Commit._producers
    monkeypatch.setattr(commit_module._Commit, "_producers", forgetful)
    with pytest.raises(AssertionError):
        check_exactly_once([make_spool(4, 0.0)], [[(0, 0), (0, 1)], [(0, 0), (0, 1), (0, 2)]])


def test_frames_of_a_series_in_one_batch_become_one_segment() -> None:
    spool = Spool()
    for number in range(150):
        spool.points(some_points(number * 20, 20))
    hand_in(spool.bytes)
    segment = Segment.objects.get()
    assert (segment.count, segment.first_step, segment.last_step, segment.cursor) == (3000, 0, 2999, 1)


def test_the_small_pieces_of_a_batch_become_one_block() -> None:
    spool = Spool()
    hand_in(spool.points(some_points(0, 20)) + spool.points(some_points(0, 20), name="y"))
    assert Block.objects.get().count == 40
    assert not Segment.objects.exists()


def test_a_series_keeps_a_summary_over_batches() -> None:
    spool = Spool()
    hand_in(spool.points([(1, 1.0, 5.0), (2, 2.0, float("nan")), (3, 3.0, float("inf"))]))
    hand_in(spool.points([(4, 4.0, -1.0), (5, 5.0, 2.0)]))
    row = Series.objects.get()
    assert (row.count, row.first_step, row.last_step, row.last, row.min, row.max) == (5, 1, 5, 2.0, -1.0, 5.0)
    hand_in(spool.points([(6, 6.0, float("-inf"))]))
    row.refresh_from_db()
    assert (row.last, row.last_text, row.min) == (None, "-Infinity", -1.0)


def test_the_last_value_is_the_newest_attempts() -> None:
    first, second = Spool(), Spool()
    hand_in(first.points([(150, 150.0, 1.5)]), fence=1)
    hand_in(second.points([(101, 200.0, 1.8)]), fence=2)
    row = Series.objects.get()
    assert (row.last_step, row.last, row.first_step, row.count) == (101, 1.8, 101, 2)
    hand_in(first.points([(151, 151.0, 1.4)]), fence=1)
    row.refresh_from_db()
    assert (row.last_step, row.last, row.count) == (101, 1.8, 3)
    assert Telemetry.objects.get().step == 101


BAD_POINTS = {
    "a name of 501 characters": [{}, ["n" * 501], b"", b"", b""],
    "an empty name": [{}, [""], b"", b"", b""],
    "a name that is no text": [{}, [7], b"", b"", b""],
    "names that are no list": [{}, "x", b"", b"", b""],
    "a label that is no text": [{"gpu": 1}, ["x"], b"", b"", b""],
    "labels that are no map": [["gpu"], ["x"], b"", b"", b""],
    "fewer times than steps": [{}, ["x"], b"\0" * 16, b"\0" * 8, b"\0" * 16],
    "fewer values than steps": [{}, ["x"], b"\0" * 16, b"\0" * 16, b"\0" * 8],
    "more names than values": [{}, ["x", "y"], b"\0" * 16, b"\0" * 16, b"\0" * 24],
    "half a number": [{}, ["x"], b"\0" * 12, b"\0" * 12, b"\0" * 12],
    "a time that is not finite": packed("x", {}, [(1, float("nan"), 1.0)]),
    "a column of text": [{}, ["x"], "steps", b"", b""],
    "four parts": [{}, ["x"], b"", b""],
    "no list": "x",
}


@pytest.mark.parametrize("group", BAD_POINTS.values(), ids=BAD_POINTS.keys())
def test_a_bad_frame_is_kept_aside_and_counts_as_seen(group: object) -> None:
    spool = Spool()
    spool.begin()
    bad = spool.add("points", g=[group])
    spool.points(some_points(3, 1))
    hand_in(spool.bytes)
    row = Producer.objects.get()
    assert (row.watermark, row.num_dead_letters, row.has_gap) == (3, 1, False)
    letter = DeadLetter.objects.get()
    assert (letter.producer, letter.sequence, bytes(letter.data)) == (spool.producer, 2, bad)
    assert {step for _, step in stored()} == {3}


@pytest.mark.parametrize(
    "payload",
    [
        {"t": "surprise"},
        {"t": "points"},
        {"t": "logs", "rank": "0", "stream": "stdout", "lines": []},
        {"t": "logs", "rank": 0, "stream": "syslog", "lines": []},
        {"t": "logs", "rank": 0, "stream": "stdout", "lines": [["noon", "text"]]},
        {"t": "logs", "rank": 0, "stream": "stdout", "lines": [[1.0, b"bytes"]]},
        {"t": "begin", "rank": 0, "role": "rest"},
        {"t": "begin", "rank": 2**40},
        {"t": "lost", "counts": {"lost_points": "many"}},
        {"t": "lost", "counts": {"lost_points": -1}},
    ],
    ids=lambda payload: "-".join(map(str, payload.values())),
)
def test_bad_records_of_other_kinds(payload: dict[str, object]) -> None:
    spool = Spool()
    spool.add(**{"kind": payload.pop("t"), **payload})  # type: ignore[arg-type]
    spool.points(some_points(2, 1))
    hand_in(spool.bytes)
    assert progress.watermarks("run1") == {spool.producer: 2}
    assert DeadLetter.objects.count() == 1


def test_the_series_of_a_group_share_their_steps_and_times() -> None:
    steps, times = struct.pack("<2q", 7, 8), struct.pack("<2d", 70.0, 80.0)
    values = struct.pack("<4d", 1.0, 10.0, 2.0, 20.0)
    spool = Spool()
    spool.add("points", g=[[{"gpu": "0"}, ["a", "b"], steps, times, values]])
    [frame] = incoming(spool.bytes)
    assert frame.record is not None
    [matrix] = merged([(spool.producer, 1, rows) for rows in frame.record.points])
    [one, two] = matrix.pieces()
    assert (one.name, two.name, one.labels) == ("a", "b", {"gpu": "0"})
    assert (one.columns.values.tolist(), two.columns.values.tolist()) == ([1.0, 2.0], [10.0, 20.0])
    assert one.columns.steps is two.columns.steps and one.columns.times is two.columns.times
    assert one.columns.steps.tolist() == [7, 8] and one.columns.times.tolist() == [70.0, 80.0]


def test_what_a_producer_could_not_keep_is_a_record() -> None:
    spool = Spool()
    spool.add("lost", counts={"lost_points": 3, "bad_values": 1})
    [frame] = incoming(spool.bytes)
    assert frame.record is not None and frame.record.lost == {"lost_points": 3, "bad_values": 1}


def test_a_flipped_bit_between_two_sound_frames_costs_that_frame_only() -> None:
    spool = make_spool(5)
    frames = [bytearray(frame) for frame in spool.frames]
    frames[2][-1] ^= 1
    for _ in range(2):
        hand_in(b"".join(bytes(frame) for frame in frames))
    assert progress.watermarks("run1") == {spool.producer: 5}
    assert {step for _, step in stored()} == {2, 4}
    assert DeadLetter.objects.get().sequence == 3


def test_a_flipped_bit_that_nobody_can_place_counts_for_nobody() -> None:
    one, other = make_spool(4), make_spool(4)
    broken = bytearray(one.frames[0])
    broken[-1] ^= 1
    hand_in(bytes(broken) + one.frames[1] + other.frames[1])
    assert progress.watermarks("run1") == {one.producer: 0, other.producer: 0}
    assert DeadLetter.objects.get().producer == ""


def test_text_that_is_no_utf8_is_bad_in_its_own_frame() -> None:
    spool = Spool()
    body = msgpack.packb(
        {"p": spool.producer, "q": 1, "t": "logs", "rank": 0, "stream": "stdout", "lines": [[1.0, "?"]]}
    )
    body = body.replace(b"\xa1?", b"\xa1\xff")
    hand_in(records.HEADER.pack(len(body), zlib.crc32(body)) + body)
    assert progress.watermarks("run1") == {spool.producer: 1}


def test_a_name_with_a_nul_is_stored_with_a_mark_in_its_place() -> None:
    hand_in(Spool().points(some_points(1, 1), name="a\0b", gpu="\0"))
    row = Series.objects.get()
    assert (row.name, row.labels) == ("a\ufffdb", {"gpu": "\ufffd"})


def test_a_node_may_not_speak_for_a_producer_of_another_node() -> None:
    spool = make_spool(4)
    hand_in(spool.frames[0])
    committed = hand_in(spool.frames[1], source=Source("node2", "node-b"))
    assert committed.foreign == {spool.producer}
    assert progress.watermarks("run1") == {spool.producer: 1}
    assert "belongs to another" in DeadLetter.objects.get().reason


def test_what_was_committed_says_what_is_new() -> None:
    spool = make_spool(4)
    hand_in(spool.frames[0] + spool.frames[1])
    committed = hand_in(spool.bytes)
    assert (committed.start, committed.cursor, committed.watermarks) == (1, 2, {spool.producer: 4})
    assert [piece.columns.steps.tolist() for piece in committed.pieces] == [[3]]
    again = hand_in(spool.bytes)
    assert (again.start, again.cursor, again.pieces) == (2, 2, [])


def test_the_minute_of_the_last_record_finds_the_runs_that_report() -> None:
    hand_in(make_spool(4).bytes)
    row = Telemetry.objects.get(run_id="run1")
    assert row.last_record_at is not None
    assert row.record_minute == int(row.last_record_at.timestamp() // 60)


def test_steps_at_both_ends_of_int64_are_kept() -> None:
    low, high = -(2**63), 2**63 - 1
    hand_in(Spool().add("points", g=[[{}, ["x"], struct.pack("<2q", high, low), b"\0" * 16, b"\0" * 16]]))
    assert series_data("run1", ["x"])["series"][0]["step"] == [low, high]
    assert sum(series_data("run1", ["x"], points=2)["series"][0].get("count", [2])) == 2

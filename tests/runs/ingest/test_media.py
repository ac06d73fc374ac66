"""Records of media: stored once, exactly as they came, or refused with a sentence that stops nothing behind them."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from runs.ingest import troubles
from runs.ingest.commit import Committed, Source, commit
from runs.ingest.memory import Memory
from runs.ingest.validation.records import incoming
from runs.records.media.read import content
from runs.records.metrics import erase, progress
from runs.records.metrics.models import DeadLetter, Media, Telemetry
from runs.records.points import read
from tests.media import BEEP, CLIP, PIXEL, audio, histogram, image, table, text, video
from tests.spools import Spool, some_points
from trainyard.formats.pictures import png

pytestmark = pytest.mark.django_db(databases="__all__")

NODE = Source("node1", "node-a")


def hand_in(data: bytes, run: str = "run1", fence: int = 1, memory: Memory | None = None) -> Committed:
    return commit(run, fence=fence, source=NODE, batch=incoming(data), memory=memory)


def logged(*payloads: dict[str, Any], rank: int = 0, fence: int = 1) -> Spool:
    spool = Spool()
    spool.begin(rank=rank)
    for payload in payloads:
        spool.put("media", payload)
    hand_in(spool.bytes, fence=fence)
    return spool


def counted() -> dict[str, int]:
    return dict(Telemetry.objects.get(pk="run1").troubles)


def test_each_kind_is_stored_with_what_it_says() -> None:
    logged(image(1, labels={"index": "0"}), histogram(2), text(3), table(4), audio(5), video(6), rank=3)
    rows = {row.kind: row for row in Media.objects.all()}
    assert {kind: (row.name, row.step, row.time, row.rank, row.attempt, row.cursor) for kind, row in rows.items()} == {
        "image": ("samples", 1, 1001.0, 3, 1, 1),
        "histogram": ("weights", 2, 1002.0, 3, 1, 1),
        "text": ("story", 3, 1003.0, 3, 1, 1),
        "table": ("confusion", 4, 1004.0, 3, 1, 1),
        "audio": ("speech", 5, 1005.0, 3, 1, 1),
        "video": ("clip", 6, 1006.0, 3, 1, 1),
    }
    assert (rows["image"].labels, rows["image"].labels_key) == ({"index": "0"}, '{"index":"0"}')
    assert bytes(rows["image"].data) == PIXEL and rows["image"].size == len(PIXEL)
    assert rows["image"].meta == {"caption": "a cat", "width": 2, "height": 3, "format": "png"}
    assert bytes(rows["audio"].data) == BEEP and content(rows["audio"]) == {}
    assert rows["audio"].meta == {
        "caption": "a beep", "sample_rate": 16_000, "channels": 1, "duration_s": 0.5, "format": "wav",
    }  # fmt: skip
    assert bytes(rows["video"].data) == CLIP and rows["video"].meta == {"caption": "a walk", "format": "mp4"}
    assert content(rows["histogram"]) == {"histogram": {"edges": [0, 1, 2], "counts": [3, 5]}}
    assert content(rows["text"]) == {"text": "once upon a time"}
    assert content(rows["table"]) == {"table": {"columns": ["a", "b"], "rows": [[1, "x"], [None, 0.5]]}}
    assert counted() == {}


def test_media_and_points_of_a_batch_are_stored_together_and_the_batch_says_so() -> None:
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 3))
    spool.put("media", image(3))
    committed = hand_in(spool.bytes)
    assert committed.has_media and committed.cursor == 1
    assert read.summaries(["run1"])["run1"]["train/loss"]["count"] == 3
    assert Media.objects.get().cursor == 1


def test_a_record_that_comes_again_is_stored_once() -> None:
    spool = logged(image(1), text(2))
    before = list(Media.objects.values())
    assert not hand_in(spool.bytes).has_media
    assert list(Media.objects.values()) == before


def test_what_the_image_itself_says_goes_before_what_was_said_of_it() -> None:
    logged(image(meta={"caption": "x\0" * 3000, "width": 9, "height": "no", "format": "text/html", "more": 1}))
    meta = Media.objects.get().meta
    assert meta == {"caption": "x\ufffd" * 1000, "width": 2, "height": 3, "format": "png"}


def test_a_text_is_kept_without_what_a_database_cannot_hold() -> None:
    logged(text(said="a\0b\N{RIGHT-TO-LEFT OVERRIDE}<script>", meta={"format": "markdown", "chars": 7e9}))
    row = Media.objects.get()
    assert content(row)["text"] == "a\ufffdb\N{RIGHT-TO-LEFT OVERRIDE}<script>"
    assert row.meta == {"format": "markdown", "chars": 12}


def numbers(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def head_only(width: int, height: int) -> bytes:
    """A PNG that claims to be so large: a bomb has a few bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return PIXEL[:8] + struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no name": (image(name=""), "name"),
    "a long name": (image(name="x" * 501), "name"),
    "a name that is a number": (image(name=7), "name"),  # type: ignore[arg-type]
    "labels that are none": (image(labels=["a"]), "labels"),
    "a label that is a list": (image(labels={"a": [1]}), "labels"),
    "too many labels": (image(labels={str(n): "" for n in range(33)}), "labels"),
    "a step that is a text": ({**image(), "step": "1"}, "step"),
    "a step that is true": ({**image(), "step": True}, "step"),
    "a step beyond 64 bits": ({**image(), "step": 2**63}, "step"),
    "a time that is none": (image(at=math.nan), "at: "),
    "a time that is a text": (image(at="now"), "at: "),
    "an unknown kind": (image(kind="film"), "kind: "),
    "a kind that is a list": (image(kind=["image"]), "kind: "),
    "a meta that is a text": (image(meta="x"), "meta"),
    "data that is a text": (image(data="x"), "bytes"),  # type: ignore[arg-type]
    "markup as an image": (image(data=b"<svg onload=alert(1)>"), "an image is"),
    "an image that ends in its head": (image(data=PIXEL[:17]), "width and height"),
    "an image without a width": (image(data=head_only(0, 5)), "width and height"),
    "an image that is a bomb": (image(data=head_only(32_000, 32_000)), "too large"),
    "an image that is a strip": (image(data=head_only(10**9, 1)), "too large"),
    "a caption that is a number": (image(meta={"caption": 5}), "caption"),
    "markup as a sound": (audio(data=b"<script>alert(1)</script>"), "no WAV"),
    "a sound that ends in its head": (audio(data=BEEP[:20]), "ends in its head"),
    "a sound that ends before its samples": (audio(data=BEEP[:40]), "ends before its samples"),
    "a sound without samples": (audio(data=BEEP[:44]), "no samples"),
    "a sound that nothing plays": (audio(data=BEEP[:24] + b"\xff\xff\xff\xff" + BEEP[28:]), "samples a second"),
    "a sound on no channel": (audio(data=BEEP[:22] + b"\0\0" + BEEP[24:32] + b"\0\0" + BEEP[34:]), "0 channels"),
    "a sound that is compressed": (audio(data=BEEP[:20] + b"\x55\0" + BEEP[22:]), "format 85"),
    "a histogram of no bins": (histogram(edges=(1.0,), counts=()), "bins"),
    "bins that are a text": (histogram(meta={"bins": "2"}), "bins"),
    "a histogram of too many bins": (histogram(meta={"bins": 10**9}), "bins"),
    "a histogram that is too short": (histogram(meta={"bins": 3}), "7 numbers"),
    "an edge that is NaN": (histogram(edges=(0.0, math.nan, 2.0)), "edges"),
    "an edge that is infinite": (histogram(edges=(0.0, 1.0, math.inf)), "edges"),
    "edges that overflow": (histogram(edges=(-1.7e308, 0.0, 1.7e308)), "edges"),
    "edges that do not grow": (histogram(edges=(0.0, 0.0, 1.0)), "edges"),
    "a count below nought": (histogram(counts=(1.0, -1.0)), "counts"),
    "a count that is NaN": (histogram(counts=(1.0, math.nan)), "counts"),
    "a count that no chart can add up": (histogram(counts=(1.0, 1e308)), "counts"),
    "a number of NaN that is none": (histogram(meta={"bins": 2, "num_not_finite": -1}), "num_not_finite"),
    "a text that is no text": (text(data=b"\xff\xfe"), "UTF-8"),
    "a text of no known format": (text(meta={"format": "pdf"}), "format"),
    "a table that is none": (table(data=b"\xc1"), "data is no MessagePack"),
    "a table that is a map": (table(data=msgpack.packb({"a": 1})), "got `object`"),
    "a table that is a number": (table(data=b"\x07"), "got `int`"),
    "a table that goes deep": (table(data=b"\x91" * 5000 + b"\xc0"), "data: "),
    "a table that claims a billion rows": (table(data=b"\xdd\x3b\x9a\xca\x00"), "data"),
    "a row that is too short": (table(rows=((1,), (1, 2))), "2 columns has a row of 1 cells"),
    "a row that is a text": (table(rows=("ab",)), "it is 'ab'"),
    "a cell that is a list": (table(rows=((1, [2]),)), "data: 0.1: "),
    "a cell that is bytes": (table(rows=((1, b"x"),)), "data: 0.1: "),
    "too many columns": (table(meta={"columns": ["x"] * 201}), "columns"),
    "a column that is a number": (table(meta={"columns": ["a", 1]}), "columns"),
    "no columns": (table(meta={}), "columns"),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_cannot_be_stored_is_a_dead_letter_with_a_sentence_and_what_follows_is_stored(which: str) -> None:
    payload, word = WRONG[which]
    logged(payload, text(7))
    assert [row.step for row in Media.objects.all()] == [7]
    assert counted() == {"refused_points": 1}
    assert word in DeadLetter.objects.get().reason


def test_a_run_has_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "MAX_MEDIA_PER_RUN", 3)
    logged(*(text(step) for step in range(5)))
    logged(text(9))
    assert [row.step for row in Media.objects.order_by("pk")] == [0, 1, 2]
    assert counted() == {"media_limit": 3}


def test_a_run_has_so_many_bytes_and_no_more_and_the_memory_of_ingest_counts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(troubles, "MAX_MEDIA_BYTES", 2500)
    spool, memory = Spool(), Memory()
    spool.begin()
    for step, size in enumerate((1000, 1000, 1000, 400)):
        spool.put("media", text(step, said="x" * size))
        hand_in(spool.frames[0] + spool.frames[-1] if step == 0 else spool.frames[-1], memory=memory)
    assert [row.step for row in Media.objects.order_by("pk")] == [0, 1, 3]
    assert counted()["media_limit"] == 1


class Sender:
    """One producer's frames, each an item of its own, sent in any order and from the watermark in the end."""

    def __init__(self, rank: int) -> None:
        self.spool = Spool()
        self.spool.begin(rank=rank)
        self.written: list[tuple[int, str, bytes]] = []

    def write(self, rank: int, step: int, seed: int) -> None:
        pixels = np.random.default_rng(seed).integers(0, 256, 12, np.uint8).tobytes()
        data = png(pixels, 2, 2, 3)
        self.spool.put("media", image(step, data=data))
        self.written.append((rank, step, data))


actions = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1), st.integers(0, 5), st.integers(0, 99)),
    st.tuples(st.just("send"), st.integers(0, 1), st.lists(st.integers(0, 5), min_size=1, max_size=5)),
    st.tuples(st.just("forget"), st.just(0), st.just(0)),
)


@settings(
    max_examples=25, deadline=None, database=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(script=st.lists(actions, min_size=5, max_size=25))
def test_any_sequence_of_deliveries_is_stored_exactly_once(db: None, script: list[Any]) -> None:
    Media.objects.all().delete()
    erase.delete_run_data("run1")
    senders, memory = [Sender(0), Sender(1)], Memory()
    for name, which, *arguments in script:
        sender = senders[which]
        if name == "write":
            sender.write(which, *arguments)
        elif name == "forget":  # ingest starts again
            memory = Memory()
        else:  # of the newest frames, counted back: gaps and repetitions
            frames = sender.spool.frames
            hand_in(b"".join(frames[-1 - index % len(frames)] for index in arguments[0]), memory=memory)
    for sender in senders:
        after = progress.watermarks("run1").get(sender.spool.producer, 0)
        hand_in(b"".join(sender.spool.frames[after:]), memory=memory)
    stored = sorted((row.rank, row.step, bytes(row.data)) for row in Media.objects.all())
    assert stored == sorted(item for sender in senders for item in sender.written)

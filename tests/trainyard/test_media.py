"""Media in the SDK: what was logged is in the spool to the byte, and what cannot be costs a warning and no more."""

from __future__ import annotations

import inspect
import math
import os
import re
import subprocess
import sys
import threading
import time
import warnings
import zlib
from array import array
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import trainyard
from runs.ingest.records import incoming
from tests.trainyard.spooled import eventually, told
from trainyard import binning, media_queue, sdk
from trainyard.pictures import PNG_SIGNATURE, format_of, size_of
from trainyard.reader import READ_BYTES, SpoolReader
from trainyard.records import MAX_FRAME_BYTES, Frame, decode
from trainyard.spool import spool_files

DOCS = Path(__file__).parents[2] / "docs" / "sdk.md"
GIF = b"GIF89a\x03\x00\x02\x00\x00\x00\x00;"
WEBP = {
    "VP8L": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f" + ((3 - 1) | (2 - 1) << 14).to_bytes(4, "little") + b"\0",
    "VP8X": b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x02\0\0\x01\0\0",
    "VP8 ": b"RIFF\x1a\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x02\0",
}
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff"
    b"\xff\xc2\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\0\xff\xd9"
)


def frames(spool: Path) -> list[Frame]:
    """All frames of the folder's one producer, of any size."""
    found: list[Frame] = []
    for producer, numbers in spool_files(spool).items():
        assert not found, "one process is one producer"
        reader = SpoolReader(spool, producer)
        while read := reader.read(READ_BYTES, numbers):
            found += [decode(frame.raw)[0] for frame in read]
    return found


def media(spool: Path) -> list[dict[str, Any]]:
    """What the spool has of media; and the server takes each of them."""
    found = [frame for frame in frames(spool) if frame.kind == "media"]
    assert [item.poison for item in incoming(b"".join(frame.raw for frame in found))] == [""] * len(found)
    return [frame.payload for frame in found]


def logged(spool: Path, value: Any, **changes: Any) -> dict[str, Any]:
    """Log this one thing and return its record."""
    run = trainyard.init()
    run.log({"it": value}, **{"step": 1, **changes})
    run.finish()
    [payload] = media(spool)
    return payload


def decoded(data: bytes) -> np.ndarray[Any, Any]:
    """Read back a PNG as this SDK writes it."""
    assert data.startswith(PNG_SIGNATURE)
    chunks, at = {}, 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        chunks[kind] = body
        at += 12 + length
    head = chunks[b"IHDR"]
    width, height, channels = *(int.from_bytes(head[at : at + 4], "big") for at in (0, 4)), {0: 1, 2: 3, 6: 4}[head[9]]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 2).all()
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, channels)


def test_media_are_logged_beside_numbers_in_one_call(spool: Path) -> None:
    run = trainyard.init()
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    run.log(
        {
            "train/loss": 0.5,
            "samples": trainyard.Image(picture, caption="a cat"),
            "weights": trainyard.Histogram([1.0, 2.0, 2.0, 4.0], bins=3),
            "story": trainyard.Text("# Once", format="markdown"),
            "confusion": trainyard.Table(["a", "b"], [(1, "x"), (None, True)]),
        },
        step=7,
        labels={"split": "val"},
    )
    run.finish()
    found = {payload["name"]: payload for payload in media(spool)}
    assert list(found) == ["samples", "weights", "story", "confusion"]
    assert all(payload["labels"] == {"split": "val"} and payload["step"] == 7 for payload in found.values())
    assert abs(found["story"]["at"] - time.time()) < 60
    assert found["samples"]["meta"] == {"caption": "a cat", "width": 3, "height": 2, "format": "png"}
    assert (decoded(found["samples"]["data"]) == picture).all()
    assert found["weights"]["meta"] == {"bins": 3}
    assert array("d", found["weights"]["data"]).tolist() == [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 1.0]
    assert found["story"]["data"] == b"# Once"
    assert found["story"]["meta"] == {"chars": 6, "format": "markdown"}
    assert found["confusion"]["meta"] == {"columns": ["a", "b"], "rows": 2}
    assert msgpack.unpackb(found["confusion"]["data"]) == [[1, "x"], [None, True]]
    [points] = [frame.payload for frame in frames(spool) if frame.kind == "points"]
    assert points["g"][0][1] == ["train/loss"]
    assert (run.num_bad_values, run.num_lost_points) == (0, 0)


def test_each_kind_and_all_that_it_takes_is_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\)` \| (.*) \|$", DOCS.read_text(), re.MULTILINE))
    kinds = {name: getattr(trainyard, name) for name in trainyard.__all__ if name not in ("Run", "init", "__version__")}
    for name, kind in kinds.items():
        said = DOCS.read_text()
        assert all(parameter in said for parameter in inspect.signature(kind).parameters), name
    assert rows.keys() >= kinds.keys()


def test_media_arrive_while_the_training_goes_on_and_count_steps_by_themselves(spool: Path) -> None:
    run = trainyard.init()
    for step in range(3):
        run.log({"story": trainyard.Text("x")})
        eventually(lambda step=step: len(media(spool)) == step + 1)  # type: ignore[misc]
    assert [payload["step"] for payload in media(spool)] == [0, 1, 2]


def test_a_list_keeps_the_name_and_numbers_its_items(spool: Path) -> None:
    run = trainyard.init()
    run.log({"samples": [trainyard.Image(GIF), trainyard.Image(JPEG)]}, step=1, labels={"split": "val"})
    run.finish()
    assert [(payload["name"], payload["labels"], payload["meta"]["format"]) for payload in media(spool)] == [
        ("samples", {"split": "val", "index": "0"}, "gif"),
        ("samples", {"split": "val", "index": "1"}, "jpeg"),
    ]


@pytest.mark.parametrize(
    ("data", "form"), [(GIF, "gif"), (JPEG, "jpeg"), *((data, "webp") for data in WEBP.values())], ids=str
)
def test_the_bytes_and_the_file_of_an_image_are_logged_as_they_are(
    data: bytes, form: str, spool: Path, tmp_path: Path
) -> None:
    assert (format_of(data), size_of(data)) == (form, (3, 2))
    path = tmp_path / "picture"
    path.write_bytes(data)
    run = trainyard.init()
    run.log(
        {"bytes": trainyard.Image(bytearray(data)), "path": trainyard.Image(path), "text": trainyard.Image(str(path))}
    )
    path.write_bytes(b"the next one")
    run.finish()
    for payload in media(spool):
        assert payload["data"] == data
        assert payload["meta"] == {"caption": "", "width": 3, "height": 2, "format": form}


GREY = np.array([[0, 128], [255, 7]], np.uint8)
ARRAYS: dict[str, tuple[Any, Any]] = {
    "H x W": (GREY, GREY[:, :, None]),
    "H x W x 1": (GREY[:, :, None], GREY[:, :, None]),
    "1 x H x W": (GREY[None], GREY[:, :, None]),
    "H x W x 4": (np.dstack([GREY] * 4), np.dstack([GREY] * 4)),
    "3 x H x W": (np.stack([GREY] * 3), np.dstack([GREY] * 3)),
    "floats": (np.array([[0.0, 0.5], [1.0, 2.0], [-1.0, math.nan], [math.inf, -math.inf]]),
               np.array([[0, 128], [255, 255], [0, 0], [255, 0]])[:, :, None]),
    "half floats": (np.array([[0.0, 1.0]], np.float16), np.array([[[0], [255]]])),
    "booleans": (np.array([[True, False]]), np.array([[[255], [0]]])),
    "integers": (np.array([[-5, 7, 300]]), np.array([[[0], [7], [255]]])),
    "a list": ([[0, 1]], np.array([[[0], [1]]])),
    "strides": (np.arange(48, dtype=np.uint8).reshape(4, 4, 3)[::2, ::-1], np.arange(48).reshape(4, 4, 3)[::2, ::-1]),
}  # fmt: skip


@pytest.mark.parametrize("which", ARRAYS)
def test_an_array_becomes_the_pixels_that_it_means(which: str, spool: Path) -> None:
    given, expected = ARRAYS[which]
    assert (decoded(logged(spool, trainyard.Image(given))["data"]) == expected).all()


def test_of_two_meanings_a_tensor_has_its_channels_first(spool: Path) -> None:
    torch = pytest.importorskip("torch")
    numbers = np.arange(3 * 2 * 3, dtype=np.uint8).reshape(3, 2, 3)
    run = trainyard.init()
    tensors = [torch.tensor(numbers), (torch.tensor(numbers) / 255).to(torch.bfloat16).requires_grad_()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.log({"both": trainyard.Image(numbers), "first": [trainyard.Image(tensor) for tensor in tensors]}, step=1)
    run.finish()
    both, first, floats = (decoded(payload["data"]) for payload in media(spool))
    assert (both == numbers).all()
    assert (first == numbers.transpose(1, 2, 0)).all()
    assert (floats == numbers.transpose(1, 2, 0)).all()


class Pillow:
    """Saves itself as an image of Pillow's does; there may be none on this machine."""

    size = (3, 2)

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def copy(self) -> Pillow:
        return Pillow(dict(self.files))

    def save(self, file: Any, form: str) -> None:
        file.write(self.files[form])


def test_what_saves_itself_is_saved_in_the_format_that_one_chooses(spool: Path) -> None:
    image = Pillow({"PNG": WEBP["VP8L"], "JPEG": JPEG})
    run = trainyard.init()
    run.log({"samples": [trainyard.Image(image), trainyard.Image(image, format="jpeg")]}, step=1)
    image.files.clear()  # the script goes on with it
    run.finish()
    assert [payload["data"] for payload in media(spool)] == [WEBP["VP8L"], JPEG]


class Figure:
    def savefig(self, file: Any, format: str) -> None:
        assert format == "png"
        file.write(GIF)


def test_a_figure_is_drawn_at_once(spool: Path) -> None:
    assert logged(spool, trainyard.Image(Figure()))["data"] == GIF


def test_what_the_script_changes_after_the_call_is_not_logged(spool: Path) -> None:
    picture, values, rows = np.zeros((2, 2), np.uint8), np.zeros(4), [[1]]
    run = trainyard.init()
    things = [trainyard.Image(picture), trainyard.Histogram(values), trainyard.Table(["a"], rows)]
    picture[:], values[:], rows[0][0] = 9, 9, 9
    run.log({"image": things[0], "histogram": things[1], "table": things[2]}, step=1)
    run.finish()
    image, histogram, table = media(spool)
    assert (decoded(image["data"]) == 0).all()
    assert array("d", histogram["data"])[0] == -0.5
    assert msgpack.unpackb(table["data"]) == [[1]]


@pytest.mark.parametrize("has_numpy", [True, False])
@pytest.mark.parametrize(
    "values",
    [[0.0], [7.0] * 3, [1e-8] * 2, [1.0, 1.0 + 1e-16], [0.0, 5e-324], [-1e299, 1e299], [1, 2, 3, 1000], [True, False],
     [math.nan, 1.0, math.inf, -math.inf, 2.0], [1e17, 1e17 + 16]],
    ids=str,
)  # fmt: skip
def test_any_values_have_a_histogram_that_counts_each_of_them(
    values: list[float], has_numpy: bool, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_numpy:
        monkeypatch.setattr("trainyard.media.numpy_or_none", lambda: None)
        monkeypatch.setattr("trainyard.binning.numpy_or_none", lambda: None)
    payload = logged(spool, trainyard.Histogram(values, bins=8))
    numbers = array("d", payload["data"])
    edges, counts = numbers[:9], numbers[9:]
    finite = [value for value in values if math.isfinite(value)]
    assert sum(counts) == len(finite)
    assert payload["meta"].get("num_not_finite", 0) == len(values) - len(finite)
    assert edges[0] <= min(finite) and max(finite) <= edges[-1]


def test_with_numpy_and_without_it_histograms_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0, 1, 5_000)
    by_numpy = binning.binned(values, 50)
    monkeypatch.setattr("trainyard.binning.numpy_or_none", lambda: None)
    plain = binning.binned(values.tolist(), 50)
    assert np.abs(np.array(by_numpy.counts) - np.array(plain.counts)).sum() <= 4  # what lies on an edge
    assert np.allclose(by_numpy.edges, plain.edges)


def test_many_values_are_counted_at_once_and_not_held(spool: Path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(5_000_000, dtype=torch.float32)
    histogram = trainyard.Histogram(values)
    assert histogram.num_bytes < 10_000
    payload = logged(spool, histogram)
    assert array("d", payload["data"])[65:].tolist() == [78_125.0] * 64


@pytest.mark.parametrize("values", [[], [math.nan] * 3, np.full((2, 2), np.inf)], ids=str)
def test_where_no_value_is_finite_the_histogram_says_so(values: Any, spool: Path) -> None:
    payload = logged(spool, trainyard.Histogram(values))
    assert sum(array("d", payload["data"])[65:]) == 0
    assert payload["meta"] == {"bins": 64} | ({"num_not_finite": np.size(values)} if np.size(values) else {})


def test_a_histogram_may_be_given_as_it_is(spool: Path) -> None:
    payload = logged(spool, trainyard.Histogram(counts=np.array([1, 2]), edges=[0, 1, 4]))
    assert array("d", payload["data"]).tolist() == [0.0, 1.0, 4.0, 1.0, 2.0]


def test_texts_of_any_kind_are_kept(spool: Path) -> None:
    text = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}abc \U0001f600 \udc80" + "x" * 100_000
    assert logged(spool, trainyard.Text(text))["data"] == text.encode("utf-8", "replace")


def test_a_table_is_cut_with_a_mark_and_its_cells_are_plain(spool: Path) -> None:
    cells = [1, 2.5, None, True, "x" * 20_000, np.float32(0.5), np.int64(3), 2**70, b"bytes", math.nan, "\udc80"]
    wide = [cells + [0] * 250] * 20_000  # 400 MB of text, if it were all kept
    payload = logged(spool, trainyard.Table([f"column {n}" for n in range(261)], wide))
    meta, rows = payload["meta"], msgpack.unpackb(payload["data"])
    assert (meta["num_rows"], meta["num_columns"], len(meta["columns"])) == (20_000, 261, 200)
    assert 0 < len(rows) == meta["rows"] < 10_000
    assert rows[0][:9] == [1, 2.5, None, True, "x" * 9_999 + "…", 0.5, 3, str(2**70), "b'bytes'"]
    assert math.isnan(rows[0][9]) and rows[0][10] == "?"


def test_rows_that_have_no_end_are_cut_too(spool: Path) -> None:
    def endless() -> Any:
        while True:
            yield (1,)

    meta = logged(spool, trainyard.Table(["a"], endless()))["meta"]
    assert (meta["rows"], meta["num_rows"]) == (10_000, 10_001)


class Trap:
    """Whatever is asked of it, it raises."""

    def __str__(self) -> str:
        raise RuntimeError("its text is a trap")

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Trap
        raise RuntimeError(f"{name} is a trap")


WRONG: dict[str, tuple[Any, str]] = {
    "a file that is not there": (lambda: trainyard.Image("nowhere.png"), "No such file"),
    "a folder": (lambda: trainyard.Image("/tmp"), "directory"),
    "bytes that are no image": (lambda: trainyard.Image(b"<svg/>"), "no PNG"),
    "nothing": (lambda: trainyard.Image(None), "no picture"),
    "a number": (lambda: trainyard.Image(5), "no picture"),
    "an image that ends in its head": (lambda: trainyard.Image(GIF[:7]), "no PNG"),
    "two channels": (lambda: trainyard.Image(np.zeros((6, 5, 2))), "6 x 5 x 2"),
    "one row of pixels": (lambda: trainyard.Image(np.zeros(3)), "no picture"),
    "no pixels": (lambda: trainyard.Image(np.zeros((0, 3))), "0 x 3"),
    "complex pixels": (lambda: trainyard.Image(np.zeros((2, 2), complex)), "complex"),
    "too many pixels": (lambda: trainyard.Image(np.zeros((1, 40_000), np.uint8)), "too many"),
    "an unknown format": (lambda: trainyard.Image(GIF, format="bmp"), "'bmp'"),
    "an image that is a trap": (lambda: trainyard.Image(Trap()), "trap"),
    "words for values": (lambda: trainyard.Histogram(["a"]), "a"),
    "a word for values": (lambda: trainyard.Histogram("abc"), "values are numbers"),
    "complex values": (lambda: trainyard.Histogram(np.array([1j])), "complex"),
    "no values at all": (lambda: trainyard.Histogram(), "None"),
    "no bins": (lambda: trainyard.Histogram([1.0], bins=0), "bins is 0"),
    "bins that are a text": (lambda: trainyard.Histogram([1.0], bins="8"), "'8'"),  # type: ignore[arg-type]
    "too many bins": (lambda: trainyard.Histogram([1.0], bins=10**9), "4,096"),
    "counts without edges": (lambda: trainyard.Histogram(counts=[1.0]), "counts and edges"),
    "counts and values": (lambda: trainyard.Histogram([1], counts=[1], edges=[0, 1]), "counts and edges"),
    "an edge too few": (lambda: trainyard.Histogram(counts=[1.0], edges=[1.0]), "2 edges, not 1"),
    "edges that fall": (lambda: trainyard.Histogram(counts=[1.0], edges=[1.0, 0.0]), "grow"),
    "an edge that is NaN": (lambda: trainyard.Histogram(counts=[1.0], edges=[0.0, math.nan]), "grow"),
    "a count that a server does not take": (lambda: trainyard.Histogram(counts=[1e300], edges=[0, 1]), "from 0 to"),
    "a count below nought": (lambda: trainyard.Histogram(counts=[-1], edges=[0, 1]), "from 0 to"),
    "a text that is a page": (lambda: trainyard.Text("x", format="html"), "'html'"),
    "a text that is a trap": (lambda: trainyard.Text(Trap()), "trap"),  # type: ignore[arg-type]
    "rows of many lengths": (lambda: trainyard.Table(["a", "b"], [(1, 2), (1,)]), "row 2 has 1 cells"),
    "rows that are numbers": (lambda: trainyard.Table(["a"], [1]), "iterable"),  # type: ignore[list-item]
    "a cell that is a trap": (lambda: trainyard.Table(["a"], [(Trap(),)]), "trap"),
    "columns that are none": (lambda: trainyard.Table(None, []), "iterable"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("which", WRONG)
def test_what_cannot_be_logged_costs_one_warning_is_counted_and_harms_nothing(
    which: str, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, word = WRONG[which]
    run = trainyard.init()
    for step in range(3):
        run.log({"bad": make(), "good": trainyard.Text("x"), "loss": 1.0}, step=step)
    run.finish()
    assert [payload["name"] for payload in media(spool)] == ["good"] * 3
    assert run.num_bad_values == 3
    assert len(caplog.records) == 1 and "'bad'" in caplog.text and word in caplog.text
    assert told(frames(spool)) == {"bad_values": 3}


@pytest.mark.parametrize(
    ("thing", "word"),
    [
        (lambda: trainyard.Image(np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)), "JPEG"),
        (lambda: trainyard.Text("x" * 1_048_576), "1 MiB"),
        (lambda: trainyard.Table(["a"] * 200, [["x" * 9_000] * 200]), "not one row"),
    ],
    ids=["image", "text", "table"],
)
def test_what_is_larger_than_a_record_is_refused_with_advice(
    thing: Any, word: str, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainyard.init()
    run.log({"large": thing(), "small": trainyard.Text("x")}, step=1)
    run.finish()
    assert [payload["name"] for payload in media(spool)] == ["small"]
    assert run.num_bad_values == 1 and word in caplog.text


def test_up_to_the_last_byte_it_is_either_stored_or_refused(spool: Path) -> None:
    run = trainyard.init()
    sizes = range(MAX_FRAME_BYTES - 300, MAX_FRAME_BYTES, 13)
    for step, size in enumerate(sizes):
        run.log({"large": trainyard.Text("x" * size)}, step=step)
    run.finish()
    stored = len(media(spool))
    assert 0 < stored < len(sizes)
    assert (run.num_bad_values, run.num_lost_points) == (len(sizes) - stored, 0)


def test_a_file_that_is_larger_is_not_even_read(spool: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(10**12)
    run = trainyard.init()
    run.log({"large": trainyard.Image(path)}, step=1)
    run.finish()
    assert "1,000,000,000,000 bytes" in caplog.text


@pytest.mark.parametrize("name", ["", "x" * 501, 3, "\ud800"], ids=ascii)
def test_a_name_that_is_none_is_refused(name: Any, spool: Path) -> None:
    run = trainyard.init()
    run.log({name: trainyard.Text("x")}, step=1)
    run.finish()
    assert media(spool) == [] and run.num_bad_values == 1


def test_a_list_with_something_else_in_it_is_no_list_of_media(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.log({"mixed": [trainyard.Text("x"), 5], "empty": []}, step=1)
    run.log({"long": [trainyard.Text("x")] * 101}, step=1)
    run.finish()
    assert len(media(spool)) == 100
    assert run.num_bad_values == 3


def test_no_more_labels_are_sent_than_a_server_takes(spool: Path) -> None:
    run = trainyard.init()
    labels = {f"label {number}": "x" for number in range(40)}
    run.log({"loss": 0.5, "story": [trainyard.Text("x")], "one": trainyard.Text("x")}, step=1, labels=labels)
    run.finish()
    assert [len(payload["labels"]) for payload in media(spool)] == [32, 32]
    assert media(spool)[0]["labels"]["index"] == "0"
    assert not any(item.poison for item in incoming(b"".join(frame.raw for frame in frames(spool))))
    assert run.num_bad_values == 1


def test_memory_is_bounded_and_what_finds_no_room_is_counted(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_queue, "MAX_BYTES", 10_000)
    spool.write_text("a file is in the way")
    run = trainyard.init()
    for step in range(20):
        run.log({"story": trainyard.Text("x" * 1000)}, step=step)
        if step == 5:
            eventually(lambda: len(run._media) == 0 or len(run._outbox) > 0)  # encoded or not, it counts
    assert run.num_lost_points == 10
    run.log({"loss": 1.0}, step=99)  # numbers have room of their own
    spool.unlink()
    run.finish()
    assert [payload["step"] for payload in media(spool)] == list(range(10))
    assert told(frames(spool)) == {"lost_points": 10}
    assert run._outbox.num_data_bytes == 0 and run._num_pending == 0


def test_beyond_the_spool_s_limit_media_are_dropped_and_counted(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SPOOL_LIMIT_BYTES", "1000")
    run = trainyard.init()
    run.log({"story": trainyard.Text("x" * 2000)}, step=1)
    eventually(lambda: len(media(spool)) == 1)
    run._outbox._limit._looked_at = float("-inf")
    run.log({"story": trainyard.Text("y")}, step=2)
    run.finish()
    assert len(media(spool)) == 1 and run.num_refused_points == 1


def test_a_note_waits_for_no_picture_and_points_do_not_either(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, is_at_work = threading.Event(), threading.Event()

    class Slow(trainyard.Text):
        def encode(self, room_bytes: int) -> Any:
            is_at_work.set()
            may_go_on.wait(30)
            return super().encode(room_bytes)

    run = trainyard.init()
    run.log({"slow": Slow("x")}, step=1)
    assert is_at_work.wait(30)
    run.note({"state": "saved", "step": 1, "fence": 1})
    assert [frame.kind for frame in frames(spool)] == ["begin", "checkpoint"]
    may_go_on.set()
    run.finish()
    assert [payload["name"] for payload in media(spool)] == ["slow"]


def test_after_the_end_nothing_is_logged(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.finish()
    run.log({"story": trainyard.Text("x")}, step=1)
    assert media(spool) == [] and run.num_lost_points == 1
    assert "after finish()" in caplog.text


def test_a_forked_child_does_not_write_what_its_parent_logged(spool: Path) -> None:
    code = (
        "import os, trainyard, time\n"
        "run = trainyard.init()\n"
        "run.log({'story': trainyard.Text('parent')}, step=1)\n"
        "if os.fork() == 0:\n"
        "    run.log({'story': trainyard.Text('child')}, step=2)\n"
        "    run.finish()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TRAINYARD_SPOOL": str(spool)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = []
    for producer, numbers in spool_files(spool).items():
        read = SpoolReader(spool, producer).read(READ_BYTES, numbers)
        texts.append([decode(frame.raw)[0].payload["data"] for frame in read if frame.kind == "media"])
    assert sorted(texts) == [[b"child"], [b"parent"]]


def test_at_the_end_encoding_has_so_much_time_and_what_is_left_is_counted(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sdk, "ENCODE_TIMEOUT_S", 0.0)

    class Slow(trainyard.Text):
        def encode(self, room_bytes: int) -> Any:
            threading.Event().wait(0.2)
            return super().encode(room_bytes)

    run = trainyard.init()
    run.log({"slow": [Slow("x")] * 10}, step=1)
    run.finish()
    assert 0 < len(media(spool)) < 10
    assert run.num_lost_points == 10 - len(media(spool)) == told(frames(spool))["lost_points"]
    assert "encoded in time" in caplog.text

"""Media that cannot be logged, or are too large: each costs a warning and no more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
from tests.trainyard.media_records import frames, media
from tests.trainyard.picture_files import GIF
from tests.trainyard.spooled import told
from trainyard.spooling.frames import MAX_FRAME_BYTES


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
    "a text of no known format": (lambda: trainyard.Text("x", format="pdf"), "'pdf'"),
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

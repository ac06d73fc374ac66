"""Images in the SDK: files as they are, and pixels from whatever has them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainyard
from tests.trainyard.media_records import logged, media
from tests.trainyard.picture_files import GIF, JPEG, WEBP, decoded
from trainyard.formats.pictures import format_of, size_of


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

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.workers.training.data.bringing import all_rows, load_images, write_image
from workers.training.data.problems import DataProblem

RED, BLUE = (200, 0, 0), (0, 0, 200)


def plain(colour: Any, height: int = 20, width: int = 20) -> np.ndarray[Any, Any]:
    return np.full((height, width, *np.shape(colour)), colour, np.uint8)


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Twelve images of each of two classes, of several kinds."""
    for index in range(12):
        kind = ("png", "jpg", "webp", "gif")[index % 4]
        write_image(tmp_path / "images" / "red" / f"{index}.{kind}", plain(RED, height=20 + index))
        write_image(tmp_path / "images" / "blue" / "more" / f"{index}.{kind}", plain(BLUE, width=20 + index))
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path / "images"


def test_a_folder_of_each_class_gives_images_of_one_size(colours: Path) -> None:
    samples = load_images(colours, image_size=8)
    assert samples.classes == ("blue", "red")
    assert samples.train_inputs.shape == (22, 3, 8, 8) and samples.train_inputs.dtype == np.uint8
    inputs, targets = all_rows(samples)
    for image, target in zip(inputs, targets, strict=True):
        expected = np.array(RED if target else BLUE)
        assert np.abs(image.reshape(3, -1).T.astype(int) - expected).max() < 12  # JPEG and WebP round
    assert samples.facts["image_size"] == 8 and samples.facts["channels"] == 3
    assert samples.facts["num_classes"] == 2


def test_the_middle_is_kept_of_a_wide_image(tmp_path: Path) -> None:
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 255
    for name in ("a", "b"):
        for index in range(2):
            write_image(tmp_path / name / f"{index}.png", wide)
    samples = load_images(tmp_path, image_size=10)
    assert samples.train_inputs.shape[1:] == (1, 10, 10)
    assert samples.train_inputs[0, 0, :, 1:-1].min() == 255


def test_most_being_grey_makes_all_grey(tmp_path: Path) -> None:
    for index in range(3):
        write_image(tmp_path / "a" / f"{index}.png", plain(100))
    write_image(tmp_path / "b" / "0.png", plain((60, 60, 60)))
    inputs, _ = all_rows(load_images(tmp_path))
    assert inputs.shape == (4, 1, 8, 8)
    assert {int(image.mean()) for image in inputs} == {100, 60}


def test_what_can_be_seen_through_is_white_and_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    write_image(tmp_path / "clear" / "0.png", plain((0, 0, 0, 0)))
    Image.fromarray(np.full((9, 9), 128 * 257, np.uint16)).save(tmp_path / "clear" / "1.png")
    for index in range(2):
        write_image(tmp_path / "dark" / f"{index}.png", plain(0))
    inputs, targets = all_rows(load_images(tmp_path))
    assert sorted(int(image.mean()) for image in inputs[targets == 0]) == [128, 255]


def test_a_photo_that_was_turned_stands_upright(tmp_path: Path) -> None:
    half = plain(0)
    half[:10] = 255
    turned = Image.Exif()
    turned[0x0112] = 3  # by 180 degrees
    for name in ("a", "b"):
        for index in range(2):
            write_image(tmp_path / name / f"{index}.jpg", half, exif=turned, quality=95)
    image = load_images(tmp_path).train_inputs[0, 0]
    assert image[:3].max() < 20 and image[-3:].min() > 235


def test_a_folder_around_the_classes_is_gone_through(colours: Path, tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    colours.rename(tmp_path / "outer" / "inner" / "colours")
    assert load_images(tmp_path / "outer").classes == ("blue", "red")


def test_a_class_whose_name_is_no_utf_8_is_read(colours: Path) -> None:
    (colours / "red").rename(colours / "caf\udce9")
    assert load_images(colours).classes == ("blue", "caf\ufffd")


def test_an_unreadable_image_is_named(colours: Path) -> None:
    (colours / "red" / "0.png").write_bytes(b"no image")
    with pytest.raises(DataProblem, match=r"images/red/0\.png cannot be read as an image .*: save it again, or remove"):
        load_images(colours)


def test_an_image_cut_short_is_named(colours: Path) -> None:
    path = write_image(colours / "red" / "long.png", np.random.default_rng(0).integers(0, 255, (90, 90, 3)))
    path.write_bytes(path.read_bytes()[:9_000])
    with pytest.raises(DataProblem, match=r"images/red/long\.png cannot be read as an image \(image file is truncated"):
        load_images(colours)


def test_an_image_of_more_pixels_than_are_honest_is_refused(colours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(colours / "red" / "huge.png", np.zeros((1500, 1500), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2_000_000)
    with pytest.raises(DataProblem, match=r"images/red/huge\.png .*2250000 pixels"):
        load_images(colours)


def test_an_image_in_no_class_is_refused(colours: Path) -> None:
    write_image(colours / "loose.png", plain(RED))
    with pytest.raises(DataProblem, match=r"images/loose\.png lies in no folder of a class: put each image into"):
        load_images(colours)


def test_one_class_is_nothing_to_tell_apart(colours: Path) -> None:
    with pytest.raises(DataProblem, match="has one class, 'more': there is nothing to tell apart"):
        load_images(colours / "blue")


def test_parts_of_data_are_not_taken_for_classes(colours: Path, tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("red", "blue"):
            write_image(tmp_path / "parted" / part / name / "0.png", plain(RED))
    with pytest.raises(DataProblem, match=r"holds parts of the data \(test, train\), not classes: .*parted/train"):
        load_images(tmp_path / "parted")


def test_a_single_image_is_no_folder(colours: Path) -> None:
    with pytest.raises(DataProblem, match="a file: images lie in a folder with one for each class"):
        load_images(colours / "red" / "0.png")


@pytest.mark.parametrize(
    ("shape", "found"),
    [((20, 8, 8), (1, 8, 8)), ((20, 8, 8, 3), (3, 8, 8)), ((20, 3, 8, 8), (3, 8, 8)), ((20, 1, 8, 8), (1, 8, 8))],
)
def test_arrays_of_images_are_taken_as_they_lie(tmp_path: Path, shape: tuple[int, ...], found: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    values[:, :2, :2] = np.arange(20).reshape(-1, *[1] * (len(shape) - 1))
    classes = np.array(["cat", "dog"])[np.arange(20) % 2]
    np.savez_compressed(tmp_path / "images.npz", x=values, y=classes)
    inputs, targets = all_rows(load_images(tmp_path / "images.npz", "npz"))
    assert inputs.shape == (20, *found)
    order = inputs[:, 0, 0, 0]
    assert sorted(order.tolist()) == list(range(20))
    np.testing.assert_array_equal(targets, order % 2)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((4, 8, 8)), "y": np.arange(4)}, "array 'x' is float64: images are uint8, from 0 to 255"),
        ({"x": np.zeros((4, 8, 6), np.uint8), "y": np.arange(4)}, r"has the shape \(4, 8, 6\): images are \(rows"),
        ({"x": np.zeros((4, 8, 8), np.uint8), "y": np.zeros(4)}, "array 'y' is float64: classes are whole numbers"),
        ({"x": np.zeros((4, 8, 8), np.uint8), "y": np.zeros(4, int)}, "has one class: there is nothing to tell apart"),
        ({"x": np.zeros((4, 8, 8), np.uint8), "y": np.arange(4)}, "has 4 rows, and no two of a class"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "images.npz", **arrays)
    with pytest.raises(DataProblem, match=words):
        load_images(tmp_path / "images.npz", "npz")

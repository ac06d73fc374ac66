"""Samples of images: a folder with a folder for each class, or arrays in NPZ files."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from workers.training.data.problems import DataProblem
from workers.training.data.progress import DataProgress
from workers.training.data.sources.files import Files, readable
from workers.training.data.storage.cache import Facts
from workers.training.data.storage.npz_arrays import Array, NpzArray, pick, read_npz, refuse_other_rows
from workers.training.data.storage.sample_files import Numbers, SamplesWriter, Split, refuse_too_few

ROWS_AT_ONCE = 256
LOOKED_AT = 1_000  # files that say whether most are grey
MOST_THREADS = 8
CHANNELS = (1, 3, 4)
PARTS_OF_DATA = {"train", "training", "val", "valid", "validation", "test", "testing"}
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N", "F")
ALPHA = ("RGBA", "LA", "La", "PA", "RGBa")


def classes_of(files: Files) -> list[str]:
    """Return the class of each file: its folder below ``files.root``, or below the one folder that holds all.

    Raises DataProblem for files that lie in no folder of a class, and for folders that are parts of data, not classes.
    """
    if not files.is_folder:
        raise DataProblem(
            f"task.data.location is {files.location}, a file: images lie in a folder with one for each class"
        )
    split = [name.split("/") for name in files.names]
    depth = 0
    while len({parts[depth] for parts in split}) == 1 and all(len(parts) > depth + 2 for parts in split):
        depth += 1
    for parts, name in zip(split, files.names, strict=True):
        if len(parts) < depth + 2:
            raise DataProblem(
                f"{files.location}/{readable(name)} lies in no folder of a class: put each image into "
                "a folder named as its class"
            )
    found = [readable(parts[depth]) for parts in split]
    if len(names := set(found)) < 2:
        raise DataProblem(f"{files.location} has one class, {found[0]!r}: there is nothing to tell apart")
    if {name.lower() for name in names} <= PARTS_OF_DATA:
        part = "/".join([*split[0][:depth], "train" if "train" in names else min(names)])
        raise DataProblem(
            f"{files.location} holds parts of the data ({', '.join(sorted(names))}), not classes: name one of them, "
            f"such as {files.location}/{part}"
        )
    return found


def num_channels_of(files: Files) -> int:
    """Return 1 where most images are grey, else 3: of a thousand of them, evenly taken."""
    some = files.paths[:: max(1, len(files.paths) // LOOKED_AT)]
    grey = 0
    for path in some:
        with _opened(path, files.name_of(path)) as image:  # its head alone is read
            grey += image.mode in GREY
    return 1 if 2 * grey > len(some) else 3


@contextmanager
def _opened(path: Path, name: str) -> Iterator[Image.Image]:
    """Open an image for as long as it is read. Raises DataProblem with ``name`` for what cannot be, also where it is
    larger than Pillow takes for honest."""
    try:
        with Image.open(path) as image:
            yield image
    except Image.DecompressionBombError as error:
        raise DataProblem(f"{name} is too large ({error}): scale it down") from None
    except Exception as error:  # whatever Pillow's readers raise for what is no image
        raise DataProblem(f"{name} cannot be read as an image ({error}): save it again, or remove it") from None


def write_folder(folder: Path, files: Files, size: int) -> Facts:
    """Write the images' samples into ``folder``, an entry of the cache, and return the facts."""
    words = classes_of(files)
    num_channels, counts = num_channels_of(files), Counter(words)
    classes = sorted(counts)
    numbers = np.searchsorted(np.array(classes), np.array(words)).astype(np.int64)
    shape = (num_channels, size, size)
    with _writer(folder, files, shape, [counts[name] for name in classes]) as writer:
        images = _decoded(files, size, num_channels)
        progress = DataProgress(f"reading {files.location}", len(numbers), "images")
        for start in range(0, len(numbers), ROWS_AT_ONCE):
            rows = numbers[start : start + ROWS_AT_ONCE]
            writer.append(np.stack([next(images) for _ in rows]), rows, rows)
            progress.add(len(rows))
    return facts_of(writer, shape, classes)


def _decoded(files: Files, size: int, num_channels: int) -> Iterator[Array]:
    """Yield the images in their order, decoded by several threads, of which none is far ahead of who takes them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting: list[Future[Array]] = []
    with ThreadPoolExecutor(min(MOST_THREADS, cores)) as threads:
        try:
            for path in files.paths:
                waiting.append(threads.submit(read_picture, path, files.name_of(path), size, num_channels))
                if len(waiting) >= ROWS_AT_ONCE:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            threads.shutdown(cancel_futures=True)


def write_arrays(folder: Path, files: Files) -> Facts:
    """Write the samples of NPZ files, ``x`` and ``y``, into ``folder``, an entry of the cache, and return the facts."""
    pairs, shape, answers = open_all_arrays(files)
    values, numbers = np.unique(answers, return_inverse=True)
    start = 0
    with _writer(folder, files, shape, np.bincount(numbers).tolist()) as writer:
        for inputs, _ in pairs:
            for block in inputs.blocks():
                rows: Numbers = numbers[start : start + len(block)].astype(np.int64)
                writer.append(channels_first(block), rows, rows)
                start += len(block)
    return facts_of(writer, shape, [str(value) for value in values.tolist()])


def open_all_arrays(files: Files) -> tuple[list[tuple[NpzArray, NpzArray]], tuple[int, int, int], Array]:
    """Return images and classes of each file, the shape of all images, and all classes. Raises DataProblem."""
    pairs = [open_arrays(path, files.name_of(path)) for path in files.paths]
    shapes = {image_shape(inputs): inputs for inputs, _ in pairs}
    if len(shapes) > 1:
        places = " and ".join(f"{inputs.place} has {shape}" for shape, inputs in list(shapes.items())[:2])
        raise DataProblem(f"{places}: images of one training have one shape")
    answers = np.concatenate([targets.whole() for _, targets in pairs])
    if not len(answers):
        raise DataProblem(f"{pairs[0][1].place} has no rows: there is nothing to learn from")
    if (answers == answers[0]).all():
        raise DataProblem(f"{pairs[0][1].place} has one class: there is nothing to tell apart")
    return pairs, next(iter(shapes)), answers


def open_arrays(path: Path, name: str) -> tuple[NpzArray, NpzArray]:
    """Return images and classes of an NPZ file. Raises DataProblem for what cannot be these."""
    arrays = read_npz(path, name)
    inputs, targets = pick(arrays, name, "x"), pick(arrays, name, "y")
    refuse_other_rows(inputs, targets)
    if inputs.dtype != np.uint8:
        raise DataProblem(f"{inputs.place} is {inputs.dtype}: images are uint8, from 0 to 255")
    if targets.dtype.kind not in "biuU":
        raise DataProblem(f"{targets.place} is {targets.dtype}: classes are whole numbers or text")
    image_shape(inputs)
    return inputs, targets


def image_shape(array: NpzArray) -> tuple[int, int, int]:
    """Return (channels, size, size) of (rows, size, size), (rows, size, size, channels) or (rows, channels, …)."""
    shape = array.shape[1:]
    if len(shape) == 3 and shape[2] in CHANNELS and shape[0] == shape[1]:
        shape = (shape[2], shape[0], shape[1])
    elif len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3 or shape[0] not in CHANNELS or shape[1] != shape[2]:
        raise DataProblem(
            f"{array.place} has the shape {array.shape}: images are (rows, size, size), (rows, size, size, channels) "
            "or (rows, channels, size, size), with 1, 3 or 4 channels"
        )
    return shape[0], shape[1], shape[2]


def channels_first(block: Array) -> Array:
    """Return a block of images as (rows, channels, size, size)."""
    if block.ndim == 3:
        return block[:, None]
    if block.shape[3] in CHANNELS and block.shape[1] == block.shape[2]:
        return np.ascontiguousarray(block.transpose(0, 3, 1, 2))
    return block


def _writer(folder: Path, files: Files, shape: tuple[int, ...], counts: list[int]) -> SamplesWriter:
    refuse_too_few(files.location, counts)
    return SamplesWriter(folder, Split(counts), (np.uint8, shape), np.int64)


def facts_of(writer: SamplesWriter, shape: tuple[int, ...], classes: list[str]) -> Facts:
    return {
        **writer.num_rows,
        "num_rows": sum(writer.num_rows.values()),
        "channels": shape[0],
        "image_size": shape[1],
        "num_classes": len(classes),
        "classes": classes,
    }


def read_picture(path: Path, name: str, size: int, num_channels: int) -> Array:
    """Return the image, uint8 (channels, size, size): its shorter side scaled to ``size``, the middle of the longer.
    Raises DataProblem as ``_opened`` does."""
    with _opened(path, name) as opened:
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and opened.width * opened.height > limit:
            raise Image.DecompressionBombError(f"{opened.width} x {opened.height} pixels; accepted are {limit:,}")
        # A JPEG is decoded at the nearest size above: that is most of the work.
        opened.draft("RGB" if num_channels == 3 else "L", (size, size))
        image = ImageOps.exif_transpose(opened)
        values = np.asarray(ImageOps.fit(_opaque(image, num_channels), (size, size), Image.Resampling.BILINEAR))
    return values[None] if num_channels == 1 else np.ascontiguousarray(values.transpose(2, 0, 1))


def _opaque(image: Image.Image, num_channels: int) -> Image.Image:
    """Return the image in grey or RGB; what can be seen through is white."""
    if image.mode.startswith("I"):  # 16 bits, of which Pillow would cut off the upper ones
        values: Any = np.asarray(image, np.float64)
        image = Image.fromarray((values / 257).clip(0, 255).astype(np.uint8))
    if image.mode in ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if num_channels == 1 else "RGB")

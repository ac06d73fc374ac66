"""Facts of images: how many there are of each class, and some of them, small."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Sequence

import numpy as np
from PIL import Image

from trainyard.contract.inspections import DatasetFacts
from workers.training.data.inspection.request import InspectionRequest
from workers.training.data.sources.files import Files
from workers.training.data.sources.images import channels_first, classes_of, num_channels_of, open_all_arrays
from workers.training.data.sources.picture import read_picture
from workers.training.data.storage.arrays import Array

NUM_SHOWN = 24
NUM_TRIED = 300  # that are read, evenly taken, so that most kinds of broken ones are found before a run
SHOWN_SIZE = 48
NUM_COLOURS = 64
MAX_CLASSES_SHOWN = 200
MAX_CHARS = 60


def describe_folder(files: Files, request: InspectionRequest) -> DatasetFacts:
    """Return the facts of a folder of images."""
    classes, num_channels = classes_of(files), num_channels_of(files)
    tried = set(range(0, len(files.paths), max(1, len(files.paths) // NUM_TRIED)))
    chosen = _some_of_each(classes)
    pictures = {}
    for index in sorted(tried | set(chosen)):
        path = files.paths[index]
        pictures[index] = read_picture(path, files.name_of(path), SHOWN_SIZE, num_channels)
    return {
        **_counts(classes),
        "num_rows": len(files.paths),
        "channels": num_channels,
        "image_size": request.image_size,
        "images": [{"class": classes[index][:MAX_CHARS], "png": _png(pictures[index])} for index in chosen],
        "is_sample": len(tried) < len(files.paths),
        "num_sampled": len(tried) if len(tried) < len(files.paths) else None,
    }


def describe_arrays(files: Files, request: InspectionRequest) -> DatasetFacts:
    """Return the facts of images in NPZ files; those that are shown are of the first rows."""
    pairs, (channels, size, _), answers = open_all_arrays(files)
    classes = [str(value) for value in answers.tolist()]
    first = channels_first(next(pairs[0][0].blocks(), np.empty((0, *pairs[0][0].shape[1:]), np.uint8)))
    chosen = _some_of_each(classes[: len(first)])
    return {
        **_counts(classes),
        "num_rows": len(classes),
        "channels": channels,
        "image_size": size,
        "images": [{"class": classes[index][:MAX_CHARS], "png": _png(first[index])} for index in chosen],
    }


def _counts(classes: Sequence[str]) -> DatasetFacts:
    counted = Counter(classes)
    return {
        "kind": "images",
        "num_classes": len(counted),
        "classes": [{"name": name[:MAX_CHARS], "count": counted[name]} for name in sorted(counted)[:MAX_CLASSES_SHOWN]],
    }


def _some_of_each(classes: Sequence[str]) -> list[int]:
    """Return the places of up to NUM_SHOWN rows, in turn of each class."""
    by_class: dict[str, list[int]] = {}
    for index, name in enumerate(classes):
        by_class.setdefault(name, []).append(index)
    names, found = sorted(by_class), list[int]()
    for turn in range(NUM_SHOWN):
        found += [by_class[name][turn] for name in names if turn < len(by_class[name])]
        if len(found) >= NUM_SHOWN:
            break
    return found[:NUM_SHOWN]  # whoever has room for fewer still has some of each


def _png(values: Array) -> str:
    """Return (channels, size, size) as a small PNG in base64, with a palette: a third of the bytes."""
    image = Image.fromarray(values[0] if len(values) == 1 else np.ascontiguousarray(values[:3].transpose(1, 2, 0)))
    image.thumbnail((SHOWN_SIZE, SHOWN_SIZE))
    if image.mode == "RGB":
        image = image.quantize(NUM_COLOURS)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()

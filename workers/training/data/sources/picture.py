"""One image file as an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from workers.training.data.problems import DataProblem
from workers.training.data.storage.arrays import Array

GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N", "F")
ALPHA = ("RGBA", "LA", "La", "PA", "RGBa")


def is_grey(path: Path) -> bool:
    """Say whether a file holds shades of grey alone, from its head. Raises what Pillow does for what is no image."""
    with Image.open(path) as image:
        return image.mode in GREY


def read_picture(path: Path, name: str, size: int, num_channels: int) -> Array:
    """Return the image, uint8 (channels, size, size): its shorter side scaled to ``size``, the middle of the longer.

    Raises DataProblem with ``name`` for what cannot be read, also where it is larger than Pillow takes for honest.
    """
    try:
        return _read(path, size, num_channels)
    except Image.DecompressionBombError as error:
        raise DataProblem(f"{name} is too large ({error}): scale it down") from None
    except Exception as error:  # whatever Pillow's readers raise for what is no image
        raise DataProblem(f"{name} cannot be read as an image ({error}): save it again, or remove it") from None


def _read(path: Path, size: int, num_channels: int) -> Array:
    with Image.open(path) as opened:
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and opened.width * opened.height > limit:
            raise Image.DecompressionBombError(f"{opened.width} x {opened.height} pixels; accepted are {limit:,}")
        # A JPEG is decoded at the nearest size above: that is most of the work.
        opened.draft("RGB" if num_channels == 3 else "L", (size, size))
        image = ImageOps.exif_transpose(opened)
        image = ImageOps.fit(_opaque(image, num_channels), (size, size), Image.Resampling.BILINEAR)
    values = np.asarray(image)
    return values[None] if num_channels == 1 else np.ascontiguousarray(values.transpose(2, 0, 1))


def _opaque(image: Image.Image, num_channels: int) -> Image.Image:
    """Return the image in grey or RGB; what can be seen through is white."""
    mode = "L" if num_channels == 1 else "RGB"
    if image.mode.startswith("I"):  # 16 bits, of which Pillow would cut off the upper ones
        values: Any = np.asarray(image, np.float64)
        image = Image.fromarray((values / 257).clip(0, 255).astype(np.uint8))
    if image.mode in ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)

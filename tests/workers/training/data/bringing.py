"""Files as people bring them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainyard.spec.sections.data import ImageData, TableData
from workers.training.data.samples import load_samples
from workers.training.data.storage.sample_files import Samples


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str = ",") -> Path:
    lines = [delimiter.join(map(str, row)) for row in [names, *rows]]
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def write_image(path: Path, values: Any, **options: Any) -> Path:
    """Save (height, width) or (height, width, channels) as the kind of file that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values, np.uint8)).save(path, **options)
    return path


def load_table(location: Path | str, source: str = "csv", target: str = "label", digest: str = "") -> Samples:
    return load_samples(TableData(source=source, location=str(location), target=target, digest=digest))  # type: ignore[arg-type]


def load_images(location: Path | str, source: str = "images", image_size: int = 8) -> Samples:
    return load_samples(ImageData(source=source, location=str(location), image_size=image_size))  # type: ignore[arg-type]


def all_rows(samples: Samples) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return inputs and targets of both sides."""
    return (
        np.concatenate([samples.train_inputs, samples.validation_inputs]),
        np.concatenate([samples.train_targets, samples.validation_targets]),
    )

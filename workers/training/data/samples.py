"""The samples of a recipe's data: images or a table, made once per node and mapped into memory by its ranks."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trainyard.spec.sections.data import ImageData, TableData
from workers.training.data.builtin_sets import BUILTIN, TABLES, builtin_version
from workers.training.data.sources.files import SUFFIXES, Files, content_digest, find_files, refuse_other_content
from workers.training.data.storage.arrays import Array
from workers.training.data.storage.cache import Facts, cached, write_facts
from workers.training.data.storage.sample_files import Samples, SamplesWriter, Split, open_samples
from workers.training.data.tabular.table_parts import Batch
from workers.training.data.tabular.table_samples import write_table

QUANTITIES = ("diabetes",)
TARGET = "target"
DARKEST = 16  # of the digits' pixels
__all__ = ["Samples", "load_samples"]

VERSION = 2  # of what is in the cache: it changes with the layout, the split and the encoding


def load_samples(data: ImageData | TableData) -> Samples:
    """Return the samples of ``task.data`` of an image classifier or a table; the node's first process makes them.

    Raises DataProblem for data that cannot be trained on.
    """
    source = data.source
    if source in BUILTIN:
        key = f"samples {VERSION} {source} {builtin_version()}"
        return open_samples(cached(key, lambda folder: write_facts(folder, _write_builtin(folder, source))))
    files = find_files(data.location, SUFFIXES[source])
    refuse_other_content(files, data.digest)
    options = {"target": data.target} if isinstance(data, TableData) else {"image_size": data.image_size}

    def build(folder: Path) -> None:
        facts = _write(folder, data, files)
        write_facts(folder, {**facts, "digest": content_digest(files)})

    return open_samples(cached(f"samples {VERSION} {source} {options} {files.key}", build))


# What makes samples is imported only where there are none yet: pyarrow takes long to import, and starts a thread.
# Without it a rank reaches its first step in half the time.


def _write_builtin(folder: Path, source: str) -> Facts:

    return write_builtin(folder, source)


def _write(folder: Path, data: ImageData | TableData, files: Files) -> Facts:
    if isinstance(data, TableData):
        from workers.training.data.tabular.table_samples import write_table
        from workers.training.data.tabular.tables import open_table

        return write_table(folder, open_table(data.source, files, data.target), files, data.target)
    from workers.training.data.sources.images import write_arrays, write_folder

    if data.source == "npz":
        return write_arrays(folder, files)
    return write_folder(folder, files, data.image_size)


# Real data that is on every node: scikit-learn's small sets, which come inside its package.


def write_builtin(folder: Path, source: str) -> Facts:
    """Write the samples of a set into ``folder``, an entry of the cache, and return the facts, with the digest."""
    if source == "digits":
        return _write_digits(folder)
    found = _load(TABLES[source])
    table = _LoadedTable(source, found)
    place = Path(source)
    is_quantity = source in QUANTITIES
    facts = write_table(folder, table, Files(source, place, [place]), TARGET, is_quantity=is_quantity)
    return {**facts, "digest": _digest(found.data, found.target)}


def _write_digits(folder: Path) -> Facts:
    found = _load("load_digits")
    images = np.rint(found.images[:, None] * (255 / DARKEST)).astype(np.uint8)
    classes = found.target.astype(np.int64)
    with SamplesWriter(folder, Split(np.bincount(classes).tolist()), (np.uint8, images.shape[1:]), np.int64) as writer:
        writer.append(images, classes, classes)
    return {
        **writer.num_rows,
        "num_rows": len(images),
        "channels": 1,
        "image_size": images.shape[-1],
        "num_classes": 10,
        "classes": [str(number) for number in range(10)],
        "digest": _digest(images, classes),
    }


def _load(name: str) -> Any:
    import sklearn.datasets  # takes a second, and only here

    return getattr(sklearn.datasets, name)()


def _digest(*arrays: Array) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class _LoadedTable:
    """One of the sets as a table, with the names of its classes where it has some."""

    def __init__(self, source: str, found: Any) -> None:
        self._source = source
        self._columns = [pa.array(np.ascontiguousarray(column, np.float64)) for column in found.data.T]
        answers = found.target if source in QUANTITIES else found.target_names[found.target]
        self._columns.append(pa.array(answers.tolist(), pa.float64() if source in QUANTITIES else pa.string()))
        self.names = [*map(str, found.feature_names), TARGET]

    def batches(self) -> Any:
        yield Batch(self._columns, Path(self._source), 0, len(self._columns[0]))

    def count_rows(self) -> int:
        return len(self._columns[0])

    def place(self, path: Path, row: int) -> str:
        return f"{self._source}, row {row + 1}"

"""Real data that is on every node: scikit-learn's small sets, which come inside its package."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from trainyard.spec.sections.data import QUANTITIES
from workers.training.data.samples import TABLES
from workers.training.data.sources.files import Files
from workers.training.data.sources.images import facts_of
from workers.training.data.storage.cache import Facts
from workers.training.data.storage.npz_arrays import Array
from workers.training.data.storage.sample_files import SamplesWriter, Split
from workers.training.data.tabular.columns import Batch
from workers.training.data.tabular.table_samples import write_table
from workers.training.data.tabular.tables import arrow_column

TARGET = "target"
DARKEST = 16  # of the digits' pixels


def write_builtin(folder: Path, source: str) -> Facts:
    """Write the samples of a set into ``folder``, an entry of the cache, and return the facts, with the digest."""
    if source == "digits":
        return _write_digits(folder)
    found = _load(TABLES[source])
    table = _LoadedTable(source, found)
    place = Path(source)
    facts = write_table(folder, table, Files(source, place, [place]), TARGET, is_quantity=source in QUANTITIES)
    return {**facts, "digest": _digest(found.data, found.target)}


def _write_digits(folder: Path) -> Facts:
    found = _load("load_digits")
    images = np.rint(found.images[:, None] * (255 / DARKEST)).astype(np.uint8)
    classes = found.target.astype(np.int64)
    with SamplesWriter(folder, Split(np.bincount(classes).tolist()), (np.uint8, images.shape[1:]), np.int64) as writer:
        writer.append(images, classes, classes)
    facts = facts_of(writer, images.shape[1:], [str(number) for number in range(10)])
    return {**facts, "digest": _digest(images, classes)}


def _load(name: str) -> Any:
    import sklearn.datasets  # takes a second, and only here

    return getattr(sklearn.datasets, name)()


def _digest(*arrays: Array) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


class _LoadedTable:
    """One of the sets as a table, with the names of its classes where it has some."""

    def __init__(self, source: str, found: Any) -> None:
        self._source = source
        answers = found.target if source in QUANTITIES else found.target_names[found.target]
        self._columns = [arrow_column(column) for column in (*found.data.T, answers)]
        self.names = [*map(str, found.feature_names), TARGET]

    def batches(self) -> Any:
        yield Batch(self._columns, Path(self._source), 0, len(self._columns[0]))

    def count_rows(self) -> int:
        return len(self._columns[0])

    def place(self, path: Path, row: int) -> str:
        return f"{self._source}, row {row + 1}"

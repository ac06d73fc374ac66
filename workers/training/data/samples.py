"""The samples of a recipe's data: images or a table, made once per node and mapped into memory by its ranks."""

import importlib.metadata
from pathlib import Path

from trainyard.spec.sections.data import ImageData, TableData
from workers.training.data.sources.files import SUFFIXES, Files, content_digest, find_files
from workers.training.data.storage.cache import Facts, cached, write_facts
from workers.training.data.storage.sample_files import Samples, open_samples

TABLES = {"breast-cancer": "load_breast_cancer", "iris": "load_iris", "wine": "load_wine", "diabetes": "load_diabetes"}
BUILTIN = ("digits", *TABLES)  # the sets of real data on every node
VERSION = 2  # of what is in the cache: it changes with the layout, the split and the encoding


def load_samples(data: ImageData | TableData) -> Samples:
    """Return the samples of ``task.data`` of an image classifier or a table; the node's first process makes them.

    Raises DataProblem for data that cannot be trained on.
    """
    source = data.source
    if source in BUILTIN:
        key = f"samples {VERSION} {source} {importlib.metadata.version('scikit-learn')}"
        return open_samples(cached(key, lambda folder: write_facts(folder, _write_builtin(folder, source))))
    files = find_files(data.location, SUFFIXES[source], data.digest)
    options = {"target": data.target} if isinstance(data, TableData) else {"image_size": data.image_size}

    def build(folder: Path) -> None:
        write_facts(folder, {**_write(folder, data, files), "digest": content_digest(files)})

    return open_samples(cached(f"samples {VERSION} {source} {options} {files.key}", build))


# What makes samples is imported only where there are none yet: pyarrow takes long to import, and starts a thread.
# Without it a rank reaches its first step in half the time.


def _write_builtin(folder: Path, source: str) -> Facts:
    from workers.training.data.builtin import write_builtin

    return write_builtin(folder, source)


def _write(folder: Path, data: ImageData | TableData, files: Files) -> Facts:
    if isinstance(data, TableData):
        from workers.training.data.tabular.table_samples import write_table
        from workers.training.data.tabular.tables import open_table

        return write_table(folder, open_table(data.source, files, data.target), files, data.target)
    from workers.training.data.sources.images import write_arrays, write_folder

    return write_arrays(folder, files) if data.source == "npz" else write_folder(folder, files, data.image_size)

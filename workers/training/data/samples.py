"""The samples of a recipe's data: images or a table, made once per node and mapped into memory by its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.training.data.problems import DataProblem
from workers.training.data.sources.builtin import BUILTIN, builtin_version, write_builtin
from workers.training.data.sources.files import SUFFIXES, Files, content_digest, find_files, refuse_other_content
from workers.training.data.sources.images import write_arrays, write_folder
from workers.training.data.storage.cache import cached, write_facts
from workers.training.data.storage.sample_files import Samples, open_samples
from workers.training.data.tabular.table_samples import write_table
from workers.training.data.tabular.tables import open_table

__all__ = ["Samples", "load_samples"]

VERSION = 2  # of what is in the cache: it changes with the layout, the split and the encoding


def load_samples(data: Mapping[str, Any]) -> Samples:
    """Return the samples of ``task.data`` of an image classifier or a table; the node's first process makes them.

    Raises DataProblem for data that cannot be trained on.
    """
    source = str(data["source"])
    if source in BUILTIN:
        key = f"samples {VERSION} {source} {builtin_version()}"
        return open_samples(cached(key, lambda folder: write_facts(folder, write_builtin(folder, source))))
    if source not in SUFFIXES:
        accepted = ", ".join([*BUILTIN, *SUFFIXES])
        raise DataProblem(f"task.data.source is {source!r}; accepted are {accepted}")
    files = find_files(str(data["location"]), SUFFIXES[source])
    refuse_other_content(files, str(data.get("digest", "")))
    options = {name: data[name] for name in ("target", "image_size") if name in data}

    def build(folder: Path) -> None:
        facts = _write(folder, source, files, options)
        write_facts(folder, {**facts, "digest": content_digest(files)})

    return open_samples(cached(f"samples {VERSION} {source} {options} {files.key}", build))


def _write(folder: Path, source: str, files: Files, options: Mapping[str, Any]) -> dict[str, Any]:
    if "target" in options:
        target = str(options["target"])
        return write_table(folder, open_table(source, files, target), files, target)
    if source == "npz":
        return write_arrays(folder, files)
    return write_folder(folder, files, int(options["image_size"]))

"""What docs/data.md shows is made, read and trained on as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainyard.spec import parse_spec
from trainyard.spec.document import parse_document
from trainyard.spec.sections.data import ImageData, TableData
from workers.training.data.fetching.fetch import PACKAGES
from workers.training.data.inspection.inspect import InspectionRequest, inspect
from workers.training.data.samples import BUILTIN, load_samples

PAGE = (Path(__file__).parents[4] / "docs" / "data.md").read_text()
BLOCKS = re.findall(r"^```(\w*) ?(\S*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
SPECS = [text for kind, _, text in BLOCKS if kind == "yaml"]


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the page shows or makes, in the place of /data."""
    folder = tmp_path_factory.mktemp("data")
    for _, name, text in BLOCKS:
        if name:
            (folder / name).write_text(text)
    program = "\n".join(text for kind, _, text in BLOCKS if kind == "python")
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=folder, check=True)
    return folder


def data_of(text: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Return recipe and ``task.data`` of a spec of the page, with the folder in the place of /data."""
    task = parse_spec(parse_document(text.replace("/data/", f"{folder}/"), "docs/data.md")).resolved()["task"]
    return task["recipe"], task["data"]


@pytest.mark.parametrize("text", SPECS, ids=[json.dumps(text.splitlines()[0]) for text in SPECS])
def test_each_spec_finds_its_data(text: str, brought: Path) -> None:
    recipe, data = data_of(text, brought)
    assert inspect(InspectionRequest.of(recipe, data))["num_rows"] >= 2
    if recipe != "language-model":
        samples = load_samples((ImageData if recipe == "image-classifier" else TableData).model_validate(data))
        assert len(samples.train_inputs) >= 2 and len(samples.validation_inputs) >= 1


def test_each_kind_of_source_has_its_spec(brought: Path) -> None:
    shown = {(recipe, data["source"]) for recipe, data in (data_of(text, brought) for text in SPECS)}
    assert shown == {
        ("tabular", "csv"),
        ("tabular", "parquet"),
        ("tabular", "npz"),
        ("image-classifier", "images"),
        ("image-classifier", "npz"),
        ("language-model", "jsonl"),
    }


def test_each_source_that_is_built_in_has_its_row() -> None:
    assert {source for source in BUILTIN if f"| `{source}` |" not in PAGE} == set()


def test_each_store_that_needs_a_package_is_named_with_it() -> None:
    ours = {"aiohttp", "huggingface_hub", ""}  # installed with Trainyard
    assert {package for package in PACKAGES.values() if package not in ours and package not in PAGE} == set()

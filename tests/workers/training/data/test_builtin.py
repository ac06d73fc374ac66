from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from trainyard.spec.sections.data import ImageData, TableData
from workers.training.data.samples import load_samples
from workers.training.data.storage.sample_files import Samples


def load(source: str) -> Samples:
    kind = ImageData if source == "digits" else TableData
    return load_samples(kind(source=source))  # type: ignore[arg-type]


def test_digits_are_images_of_ten_classes() -> None:
    samples = load("digits")
    assert samples.train_inputs.shape == (1617, 1, 8, 8) and samples.train_inputs.dtype == np.uint8
    assert samples.validation_inputs.shape == (180, 1, 8, 8)
    assert samples.train_inputs.max() == 255
    assert samples.classes == tuple("0123456789")
    assert np.bincount(samples.validation_targets).min() >= 17


@pytest.mark.parametrize(
    ("source", "shape", "classes"),
    [
        ("breast-cancer", (569, 30), ("benign", "malignant")),
        ("iris", (150, 4), ("setosa", "versicolor", "virginica")),
        ("wine", (178, 13), ("class_0", "class_1", "class_2")),
        ("diabetes", (442, 10), ()),
    ],
)
def test_tables_are_standardised(source: str, shape: tuple[int, int], classes: tuple[str, ...]) -> None:
    samples = load(source)
    assert (samples.facts["num_rows"], samples.facts["num_features"]) == shape
    assert samples.classes == classes
    np.testing.assert_allclose(samples.train_inputs.std(0), 1, atol=1e-5)
    assert len(samples.validation_inputs) == pytest.approx(shape[0] / 10, abs=1)


def test_the_libraries_that_make_them_are_imported_once_per_node() -> None:
    load("iris")
    code = (
        "import sys; from workers.training.data.samples import load_samples; "
        "from trainyard.spec.sections.data import TableData; load_samples(TableData(source='iris')); "
        "print([name for name in ('sklearn', 'pyarrow', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

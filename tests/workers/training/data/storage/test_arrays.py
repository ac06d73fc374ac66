from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workers.training.data.storage.npz_arrays import NpyWriter, open_array


@pytest.mark.parametrize(("dtype", "shape"), [(np.uint8, ()), (np.float32, (3,)), (np.uint8, (3, 32, 32))])
def test_what_was_appended_is_mapped_in_order(dtype: type, shape: tuple[int, ...], tmp_path: Path) -> None:
    rows = np.arange(7 * int(np.prod(shape))).reshape(7, *shape).astype(dtype)
    with NpyWriter(tmp_path / "rows.npy", dtype, shape) as writer:
        writer.append(rows[:2])
        writer.append(rows[2:2])
        writer.append(rows[2:])
    found = open_array(tmp_path / "rows.npy")
    assert isinstance(found, np.memmap) and found.dtype == dtype and found.shape == (7, *shape)
    assert np.array_equal(found, rows)


def test_numpy_itself_can_read_it(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "rows.npy", np.int64) as writer:
        writer.append(np.arange(5))
    assert np.load(tmp_path / "rows.npy").tolist() == [0, 1, 2, 3, 4]


def test_no_rows_are_an_array_without_rows(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "rows.npy", np.float32, (4,)):
        pass
    assert open_array(tmp_path / "rows.npy").shape == (0, 4)


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with (
        NpyWriter(tmp_path / "rows.npy", np.float32, (4,)) as writer,
        pytest.raises(ValueError, match=r"rows have the shape \(3,\), these are \(4,\)"),
    ):
        writer.append(np.zeros((2, 3)))


def test_a_file_that_was_never_closed_is_no_array(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "rows.npy", np.uint8)
    writer.append(np.zeros(1000, np.uint8))
    writer._file.close()
    with pytest.raises(ValueError, match=r"magic|pickle|allow"):
        open_array(tmp_path / "rows.npy")

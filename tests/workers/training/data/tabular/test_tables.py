from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.workers.training.data.bringing import all_rows, load_table, write_csv
from workers.training.data.problems import DataProblem
from workers.training.data.tabular import tables

FLOWERS = [(index, index * 0.5, "rose" if index % 3 else "lily") for index in range(60)]


def test_numbers_are_standardised_by_the_training_rows_and_words_are_classes(tmp_path: Path) -> None:
    samples = load_table(write_csv(tmp_path / "flowers.csv", ["height", "width", "label"], FLOWERS))
    assert samples.classes == ("lily", "rose")
    assert samples.train_inputs.shape == (54, 2) and samples.validation_inputs.shape == (6, 2)
    assert samples.train_inputs.dtype == np.float32 and samples.train_targets.dtype == np.int64
    np.testing.assert_allclose(samples.train_inputs.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(samples.train_inputs.std(0), 1, atol=1e-6)
    assert np.bincount(samples.validation_targets).tolist() == [2, 4]
    assert isinstance(samples.train_inputs, np.memmap)
    assert samples.facts["num_features"] == 2 and samples.facts["num_rows"] == 60


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.csv.gz", ",")])
def test_the_separator_is_seen_and_gzip_is_read(tmp_path: Path, name: str, delimiter: str) -> None:
    plain = load_table(write_csv(tmp_path / "plain.csv", ["height", "width", "label"], FLOWERS))
    other = load_table(write_csv(tmp_path / name, ["height", "width", "label"], FLOWERS, delimiter))
    np.testing.assert_array_equal(plain.train_inputs, other.train_inputs)


def test_rows_lie_with_their_own_target_whatever_block_they_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 200)
    rows = [(index, index % 7) for index in range(300)]
    inputs, targets = all_rows(load_table(write_csv(tmp_path / "rows.csv", ["number", "label"], rows)))
    order = np.argsort(inputs[:, 0])
    assert targets[order].tolist() == [index % 7 for index in range(300)]


def test_words_become_a_feature_each_and_missing_cells_the_mean_and_an_indicator(tmp_path: Path) -> None:
    rows = [("red" if index % 2 else "blue", "" if index % 5 == 0 else index, index % 2) for index in range(40)]
    samples = load_table(write_csv(tmp_path / "rows.csv", ["colour", "size", "label"], rows))
    assert [one["name"] for one in samples.encoding] == ["colour = blue", "colour = red", "size", "size is missing"]
    inputs, targets = all_rows(samples)
    np.testing.assert_array_equal(inputs[:, 1], targets)
    missing = inputs[:, 3] == 1
    assert missing.sum() == 8
    np.testing.assert_array_equal(inputs[missing, 2], 0)
    there = samples.train_inputs[samples.train_inputs[:, 3] == 0, 2]
    assert abs(there.mean()) < 1e-6 and abs(there.std() - 1) < 1e-6


def test_the_encoding_says_how_to_make_features_of_other_rows(tmp_path: Path) -> None:
    rows = [("red" if index % 3 else "", 1e9 + index, index % 2) for index in range(40)]
    samples = load_table(write_csv(tmp_path / "rows.csv", ["colour", "size", "label"], [("blue", 5, 1), *rows]))
    word, other, gap, size = samples.encoding
    assert word == {"name": "colour = blue", "column": "colour", "word": "blue"} and other["word"] == "red"
    assert gap == {"name": "colour is missing", "column": "colour", "missing": True}
    inputs, _ = all_rows(samples)
    sizes = np.sort(inputs[:, 3].astype(np.float64) * size["deviation"] + size["mean"])
    np.testing.assert_allclose(sizes, [5, *(1e9 + index for index in range(40))], rtol=1e-6, atol=200)


def test_numbers_with_fractions_are_a_quantity_in_units_of_their_deviation(tmp_path: Path) -> None:
    rows = [(index, index * 2.5) for index in range(100)]
    samples = load_table(write_csv(tmp_path / "rows.csv", ["number", "label"], rows))
    assert samples.classes == () and samples.train_targets.dtype == np.float32
    assert abs(samples.train_targets.mean()) < 1e-6 and abs(samples.train_targets.std() - 1) < 1e-6
    back = samples.train_targets * samples.facts["target_deviation"] + samples.facts["target_mean"]
    assert set(np.round(back / 2.5).astype(int).tolist()) <= set(range(100))


def test_few_whole_numbers_are_classes_in_their_order_and_many_a_quantity(tmp_path: Path) -> None:
    few = load_table(write_csv(tmp_path / "few.csv", ["a", "label"], [(i, i % 12) for i in range(60)]))
    assert few.classes == tuple(map(str, range(12)))
    many = load_table(write_csv(tmp_path / "many.csv", ["a", "label"], [(i, i) for i in range(300)]))
    assert many.classes == ()


def test_zero_with_a_sign_is_the_class_of_zero(tmp_path: Path) -> None:
    label = pa.array([0.0, -0.0, 1.0] * 20)
    pq.write_table(pa.table({"height": list(range(60)), "label": label}), tmp_path / "rows.parquet")
    samples = load_table(tmp_path / "rows.parquet", source="parquet")
    assert samples.classes == ("0", "1")
    assert np.bincount(all_rows(samples)[1]).tolist() == [40, 20]


def test_a_large_offset_costs_no_digits(tmp_path: Path) -> None:
    """Seconds since 1970 as float32 would stand still for two minutes at a time."""
    rows = [(1_700_000_000 + index, index % 2) for index in range(100)]
    inputs, _ = all_rows(load_table(write_csv(tmp_path / "rows.csv", ["at", "label"], rows)))
    assert len(np.unique(inputs)) == 100


def test_parquet_holds_the_same_table_and_a_folder_of_files_is_one(tmp_path: Path) -> None:
    columns = dict(zip(("height", "width", "label"), zip(*FLOWERS, strict=True), strict=True))
    csv = load_table(write_csv(tmp_path / "flowers.csv", list(columns), FLOWERS))
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate((slice(0, 25), slice(25, 60))):
        table = pa.table({name: list(values)[part] for name, values in columns.items()})
        pq.write_table(table.select(["label", "width", "height"][:: 1 if number else -1]), folder / f"{number}.parquet")
    parquet = load_table(folder, "parquet")
    assert [one["name"] for one in parquet.encoding] == ["height", "width"]
    np.testing.assert_allclose(parquet.train_inputs, csv.train_inputs, atol=1e-6)
    np.testing.assert_array_equal(parquet.train_targets, csv.train_targets)


@pytest.mark.parametrize("answers", ["y", "label"])
def test_npz_holds_the_same_table(tmp_path: Path, answers: str) -> None:
    csv = load_table(write_csv(tmp_path / "flowers.csv", ["height", "width", "label"], FLOWERS))
    numbers = np.array([row[:2] for row in FLOWERS], np.float32)
    np.savez_compressed(tmp_path / "rows.npz", x=numbers, **{answers: np.array([row[2] for row in FLOWERS])})
    npz = load_table(tmp_path / "rows.npz", "npz")
    np.testing.assert_allclose(npz.train_inputs, csv.train_inputs, atol=1e-6)
    assert npz.classes == csv.classes


def test_it_is_read_once_and_anew_when_the_file_has_changed(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "flowers.csv", ["height", "width", "label"], FLOWERS)
    first, second = load_table(path), load_table(path)
    assert first.train_inputs.filename == second.train_inputs.filename  # type: ignore[attr-defined]  # both are memmaps
    write_csv(path, ["height", "width", "label"], FLOWERS * 2)
    assert len(load_table(path).train_inputs) == 108


GOOD = "height,width,label\n" + "".join(f"{index},{index}.5,{index % 2}\n" for index in range(20))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"rows\.csv is empty or no text: its first line names the columns"),
        ("1,2,3\n4,5,6\n", r"rows\.csv begins with numbers \(1, 2, 3\): its first line names the columns"),
        ("height,height,label\n1,2,3\n", "has 2 columns named 'height'"),
        ("height,width\n1,2\n", "task.data.target is 'label', but the columns of .* are height, width"),
        ("label\n1\n2\n", "has no column beside the target 'label'"),
        ("height,width,label", "has no rows below its columns' names"),
        ("height,width,label\n", "has no rows below its columns' names"),
        (GOOD + "7,tall,1\n", r"rows\.csv, line 22, column 'width' holds the text 'tall' where 20 of 21 cells are"),
        (GOOD + "\n\n7,tall,1\n", r"rows\.csv, line 24, column 'width' holds the text 'tall'"),
        (GOOD.replace("3,3.5,1", '"3\n",3.5,1') + "7,tall,1\n", r"line 23, column 'width' holds the text 'tall'"),
        (GOOD + "7,inf,1\n", r"line 22, column 'width' holds the text 'inf'"),
        (GOOD + "7,1e999,1\n", r"line 22, column 'width' holds the text '1e999'"),
        ("height;label\n3,5;1\n4,5;2\n", r"rows\.csv, line 2, column 'height' holds '3,5': write .* point, as 3\.5"),
        (GOOD + "7,8\n", r"rows\.csv, line 22 has 2 cells and the first line 3"),
        (GOOD + "7,8,\n", r"rows\.csv, line 22 has no target, column 'label'"),
        (GOOD + "7,8,b\n", r"rows\.csv, line 22, column 'label' holds the text 'b' where 20 of 21 cells are numbers"),
        ("height,label\n1,yes\n2,yes\n", "the target 'label' is 'yes' in all 2 rows: there is nothing to learn"),
        ("height,label\n1,2.5\n2,2.5\n", "the target 'label' is '2.5' in all 2 rows"),
        ("height,label\n1,yes\n2,no\n", "has 2 rows, and no two of a class"),
        (
            "word,label\n" + "".join(f"w{index},{index % 2}\n" for index in range(101)),
            "column 'word' holds more than 100 different words: leave it out of the file, or group them",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_from_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataProblem, match=words):
        load_table(tmp_path / "rows.csv")


def test_a_column_with_a_hundred_words_is_taken(tmp_path: Path) -> None:
    rows = [(f"w{index % 100}", index % 2) for index in range(200)]
    assert load_table(write_csv(tmp_path / "rows.csv", ["word", "label"], rows)).facts["num_features"] == 100


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(GOOD.encode() + "7,8,é\n".encode("latin1"))
    with pytest.raises(DataProblem, match=r"rows\.csv, line 22 is not UTF-8: save the file as UTF-8"):
        load_table(tmp_path / "rows.csv")


def test_a_file_with_a_mark_of_its_encoding_and_returns_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert [one["name"] for one in load_table(tmp_path / "rows.csv").encoding] == ["height", "width"]


def test_files_of_one_folder_must_have_the_same_columns(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ["height", "label"], [(1, 2)])
    write_csv(tmp_path / "b.csv", ["width", "label"], [(1, 2)])
    with pytest.raises(DataProblem, match=r"b\.csv has the columns width, label, and .*a\.csv has height, label"):
        load_table(tmp_path)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1], [2]]), r"rows\.parquet, column 'a' is of the type list<.*>: columns hold numbers or text"),
        (pa.array([1.0, float("inf")]), r"rows\.parquet, row 2, column 'a' is infinite"),
    ],
)
def test_a_parquet_column_that_is_no_number_is_refused(tmp_path: Path, column: pa.Array, words: str) -> None:
    pq.write_table(pa.table({"a": column, "label": [1, 2]}), tmp_path / "rows.parquet")
    with pytest.raises(DataProblem, match=words):
        load_table(tmp_path / "rows.parquet", "parquet")


def test_a_parquet_column_of_text_in_one_file_and_of_numbers_in_another_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"size": ["small", "large"] * 20, "label": [0, 1] * 20}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"size": pa.nulls(2), "label": [0, 1]}), tmp_path / "aa.parquet")
    assert load_table(tmp_path, source="parquet").facts["num_rows"] == 42
    pq.write_table(pa.table({"size": [3, 4], "label": [0, 1]}), tmp_path / "b.parquet")
    with pytest.raises(DataProblem, match=r"b\.parquet, column 'size' holds numbers.*a\.parquet holds text"):
        load_table(tmp_path, source="parquet")


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text(GOOD)
    with pytest.raises(DataProblem, match=r"rows\.parquet is not a whole Parquet file .*: write it again"):
        load_table(tmp_path / "rows.parquet", "parquet")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": np.zeros((4, 2)), "y": np.arange(4)}, "has no array 'x'; its arrays are features, y"),
        ({"x": np.zeros((4, 2)), "z": np.arange(4)}, "has no array 'label' or 'y'; its arrays are x, z"),
        ({"x": np.zeros((4, 2)), "y": np.arange(3)}, r"array 'y' has the shape \(3,\) and 'x' \(4, 2\)"),
        ({"x": np.zeros(4), "y": np.arange(4)}, r"array 'x' is float64 of the shape \(4,\): a table has numbers"),
        ({"x": np.zeros((4, 2)), "y": np.array([None] * 4)}, "array 'y' holds Python objects: save numbers or text"),
        ({"x": np.asfortranarray(np.zeros((4, 2))), "y": np.arange(4)}, "array 'x' lies column by column"),
    ],
)
def test_arrays_that_make_no_table_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    np.savez(tmp_path / "rows.npz", **arrays)
    with pytest.raises(DataProblem, match=words):
        load_table(tmp_path / "rows.npz", "npz")


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataProblem, match=r"rows\.npz is not a whole NPZ file"):
        load_table(tmp_path / "rows.npz", "npz")


def test_an_npz_cut_in_its_values_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(4000, 4)), y=np.arange(4000) % 2)
    content = bytearray((tmp_path / "rows.npz").read_bytes())
    content[20_000:20_100] = bytes(100)
    (tmp_path / "rows.npz").write_bytes(content)
    with pytest.raises(DataProblem, match=r"rows\.npz, array 'x' cannot be read \(Bad CRC-32"):
        load_table(tmp_path / "rows.npz", "npz")

"""Runs on data that somebody brought: it is learnt from, or the run's reason says what is wrong with it and where."""

from __future__ import annotations

from pathlib import Path

from tests.whole.runs import Yard

GOOD = "height,width,label\n" + "".join(f"{index},{index % 7},{'oak' if index % 2 else 'fir'}\n" for index in range(40))


def test_a_table_is_learnt_from_and_a_text_among_its_numbers_is_named(yard: Yard, open_folder: Path) -> None:
    (open_folder / "good.csv").write_text(GOOD)
    (open_folder / "bad.csv").write_text(GOOD + "7,tall,oak\n")
    runs = [yard.submit(spec_for(open_folder / f"{name}.csv")) for name in ("good", "bad")]
    good, bad = (yard.wait_for_end(run) for run in runs)
    assert good["status"] == "SUCCEEDED" and 0 <= good["summary"]["val/accuracy"]["last"] <= 1
    assert bad["status"] == "FAILED"
    sentence = bad["reason"]["sentence"]
    assert f"cannot use its data: {open_folder}/bad.csv, line 42, column 'width' holds the text 'tall'" in sentence
    assert sentence.endswith("leave the cell empty where the number is missing")


def spec_for(path: Path) -> dict[str, object]:
    return {
        "name": path.name,
        "task": {
            "recipe": "tabular",
            "model": {"layers": 1, "width": 8},
            "data": {"source": "csv", "location": str(path), "target": "label"},
        },
        "train": {"steps": 5, "batch_size": 4},
        "restarts": {"max": 0},
    }

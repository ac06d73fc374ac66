from __future__ import annotations

import numpy as np

from workers.training.data.storage.sample_files import Split


def chosen(classes: list[int], block: int = 7) -> list[int]:
    split = Split(np.bincount(classes).tolist())
    rows = np.array(classes, np.int64)
    return [
        start + place
        for start in range(0, len(rows), block)
        for place in np.flatnonzero(split.validates(rows[start : start + block])).tolist()
    ]


def test_a_tenth_of_each_class_validates() -> None:
    classes = [0] * 200 + [1] * 50 + [2] * 30
    places = chosen(classes)
    assert np.bincount([classes[place] for place in places]).tolist() == [20, 5, 3]


def test_the_rows_are_not_those_at_one_place() -> None:
    places = np.array(chosen([0] * 1000))
    assert len(set((places % 10).tolist())) == 10
    assert np.array_equal(places // 10, np.arange(100))


def test_the_choice_does_not_depend_on_the_blocks_in_which_rows_come() -> None:
    classes = [index * 7 % 3 for index in range(500)]
    assert chosen(classes, block=1) == chosen(classes, block=13) == chosen(classes, block=500)


def test_of_a_small_class_one_row_validates_and_the_others_train() -> None:
    classes = [0, 0, 1, 1, 1, 2] + [3] * 9
    assert sorted(classes[place] for place in chosen(classes)) == [0, 1, 3]

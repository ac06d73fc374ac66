from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runs.records.points.tables import Rows, SeriesGroup, merged

HEADS = [
    SeriesGroup(("loss", "acc"), {}),
    SeriesGroup(("loss",), {}),
    SeriesGroup(("acc", "loss", "lr"), {}),
    SeriesGroup(("cpu",), {}),
    SeriesGroup(("loss",), {"gpu": "0"}),
]


def rows(head: SeriesGroup, steps: list[int], first_value: float = 0.0) -> Rows:
    values = first_value + np.arange(len(steps) * len(head.names), dtype="<f8")
    return Rows(head, np.array(steps, "<i8").tobytes(), np.array(steps, "<f8").tobytes(), values.tobytes())


def test_frames_of_one_group_become_one_matrix_with_a_series_in_each_row() -> None:
    [matrix] = merged([("p", 2, rows(HEADS[0], [1, 2])), ("p", 3, rows(HEADS[0], [3], 10.0))])
    assert (matrix.producer, matrix.sequence, matrix.head) == ("p", 2, HEADS[0])
    assert matrix.steps.tolist() == [1, 2, 3]
    assert matrix.values.tolist() == [[0.0, 2.0, 10.0], [1.0, 3.0, 11.0]]
    assert matrix.num_points == 6


def test_what_has_no_points_makes_no_matrix() -> None:
    assert merged([("p", 1, rows(HEADS[0], [])), ("p", 2, rows(HEADS[1], []))]) == []


def test_a_series_that_is_logged_in_two_ways_keeps_its_order() -> None:
    matrices = merged(
        [("p", 1, rows(HEADS[0], [1])), ("p", 2, rows(HEADS[1], [1], 5.0)), ("p", 3, rows(HEADS[0], [1], 7.0))]
    )
    found = {
        name: values.tolist()
        for matrix in matrices
        for name, values in zip(matrix.head.names, matrix.values, strict=True)
    }
    assert found == {"loss": [0.0, 5.0, 7.0], "acc": [1.0, 8.0]}


def test_a_matrix_of_some_of_its_series() -> None:
    [matrix] = merged([("p", 1, rows(HEADS[2], [4, 5]))])
    part = matrix.only([0, 2])
    assert part.head.names == ("acc", "lr")
    assert part.values.tolist() == [[0.0, 3.0], [2.0, 5.0]]
    assert part.steps is matrix.steps


@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, len(HEADS) - 1), st.lists(st.integers(0, 3), max_size=4)))
)
def test_each_series_of_a_producer_has_all_its_points_in_order_of_arrival(
    frames: list[tuple[str, int, list[int]]],
) -> None:
    arrived = [
        (producer, number, rows(HEADS[which], steps, 100.0 * number))
        for number, (producer, which, steps) in enumerate(frames)
    ]
    expected: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for producer, _, part in arrived:
        steps = np.frombuffer(part.steps, "<i8").tolist()
        values = np.frombuffer(part.values, "<f8").reshape(len(steps), len(part.head.names))
        for place, key in enumerate(part.head.keys):
            pairs = list(zip(steps, values[:, place].tolist(), strict=True)) if steps else []
            if pairs:
                expected.setdefault((producer, *key), []).extend(pairs)
    found: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for matrix in merged(arrived):
        for key, values in zip(matrix.head.keys, matrix.values, strict=True):
            place = (matrix.producer, *key)
            assert place not in found, "a series lies once"
            found[place] = list(zip(matrix.steps.tolist(), values.tolist(), strict=True))
    assert found == expected

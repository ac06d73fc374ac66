import pytest

from trainyard.formats.words import listed


@pytest.mark.parametrize(
    ("names", "at_most", "expected"),
    [
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c"], None, "a, b and c"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 2, "a, b and 2 more"),
    ],
)
def test_names_are_listed_as_a_person_lists_them(names: list[str], at_most: int | None, expected: str) -> None:
    assert listed(names, at_most=at_most) == expected

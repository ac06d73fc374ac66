"""Where data may lie, as far as a spec can know: nobody has looked yet."""

from __future__ import annotations

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.data import PROTOCOLS, location_problem
from workers.training.data.fetching.fetch import PACKAGES


@pytest.mark.parametrize(
    "location",
    [
        "/data/rows.csv",
        "file:///data/rows.csv",
        "https://host/rows.csv?signature=x/",
        "s3://bucket/rows/",
        "/data/all.zip",
        "zip://rows.csv::/data/all.zip",
        "zip://::https://host/all.zip",
        "memory://rows",
    ],
)
def test_a_place_that_a_node_can_read_is_accepted(location: str) -> None:
    assert location_problem(location) == ""
    parse_spec({"name": "a", "task": {"recipe": "tabular", "data": {"source": "csv", "location": location}}})


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("rows.csv", '"rows.csv" is neither a whole path, from / on, nor a URL'),
        ("~/rows.csv", '"~/rows.csv" is neither a whole path'),
        ("file://rows.csv", '"rows.csv" is neither a whole path'),
        ("ssh://host/rows.csv", "begins with ssh://; accepted are file, http, https, s3"),
        ("https://host/rows/", "is a folder, which a web server has not"),
        ("zip://rows.csv", "names no archive; one is written as zip://folder::/data/all.zip"),
        ("zip://rows.csv::all.zip", '"all.zip" is neither a whole path'),
        ("dir://rows::file:///etc", "names no archive"),
    ],
)
def test_a_place_that_no_node_can_read_is_refused_by_its_field(location: str, words: str) -> None:
    assert words in location_problem(location)
    with pytest.raises(SpecError, match=r"task\.data\.location"):
        parse_spec({"name": "a", "task": {"recipe": "tabular", "data": {"source": "csv", "location": location}}})


def test_what_a_spec_accepts_a_node_can_fetch() -> None:
    assert set(PROTOCOLS) == set(PACKAGES)

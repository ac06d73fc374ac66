from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.values.references import expand

ENVIRONMENT = {"RANK": "3", "TRAINYARD_OUTPUT": "/a b", "MINE": "${RANK}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--out=${TRAINYARD_OUTPUT}/x", "--out=/a b/x"),
        ("rank-${RANK}-${RANK}.txt", "rank-3-3.txt"),
        ("$RANK costs $5 $$", "$RANK costs $5 $$"),
        ("$${RANK}", "${RANK}"),
        ("${model.width}", "${model.width}"),
        ("${MINE}", "${RANK}"),
        ("${WORLD_SIZE}", "1"),
    ],
)
def test_variables_of_the_rank_are_replaced_once(text: str, expected: str) -> None:
    assert expand(text, ENVIRONMENT) == expected


def script(arguments: list[str], **task: Any) -> dict[str, Any]:
    return {"name": "a", "task": {"script": "train.py", "arguments": arguments, **task}}


def test_a_name_that_no_rank_has_is_refused_with_field_and_value() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(script(["--epochs", "--out=${OUTPUT}"]))
    (problem,) = caught.value.errors
    assert problem.path == "task.arguments.1"
    assert '"--out=${OUTPUT}" names ${OUTPUT}, which no rank has' in problem.message
    assert "$${OUTPUT}" in problem.message


def test_what_the_spec_sets_itself_is_accepted() -> None:
    parse_spec(script(["${DATA}", "${RANK}", "$${OUTPUT}"], environment={"DATA": "/data"}))

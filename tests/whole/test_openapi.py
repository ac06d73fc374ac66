"""The REST API against its own OpenAPI document: no answer is a failure of the server or one that it does not name."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from tests.whole.runs import Yard

EXAMPLES = 4
# They answer with a file, or are for nodes, which sign what they send.
LEFT_OUT = ("/download", "/files/{path}", "/bundles", "/node/", "/nodes/join")
# The Trainyard is one for all tests: nothing is made in it that would wait in its queue.
METHODS = ("get", "post", "patch")


@pytest.mark.extended
@pytest.mark.slow
def test_no_request_makes_the_server_fail_or_answer_what_is_not_documented(yard: Yard) -> None:
    schema = schemathesis.openapi.from_url(f"{yard.up.url}/api/v1/openapi.json")
    tried = [check(operation.ok(), yard) for operation in schema.get_all_operations() if is_tried(operation.ok())]
    assert len(tried) > 25


def is_tried(operation: Any) -> bool:
    makes = operation.method.lower() == "post" and "{" not in operation.path
    return operation.method.lower() in METHODS and not makes and not any(part in operation.path for part in LEFT_OUT)


def check(operation: Any, yard: Yard) -> str:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        response = case.call(base_url=yard.up.url, headers={"Authorization": f"Bearer {yard.up.token}"})
        case.validate_response(response, checks=[not_a_server_error, status_code_conformance])

    ask()
    return str(operation.label)

"""The OpenAPI document says what is refused, and what a spec is; every reference in it leads somewhere."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from runs.api import api
from runs.values.status import Status
from tests.cast import Cast, make_run, spec
from tests.runs.api.conftest import Api


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    api.get_openapi_schema(path_prefix="/api/v1/")  # the second is as whole as the first
    return json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/")))  # type: ignore[no-any-return]


def references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [one for item in part for one in references(item)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [one for item in part.values() for one in references(item)]


def at(document: dict[str, Any], reference: str) -> Any:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = references(document)
    assert len(found) > 100
    for reference in found:
        assert at(document, reference)
    assert "$defs" not in json.dumps(document)


def parts(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, list):
        return [one for item in found for one in parts(item)]
    return [found, *(one for item in found.values() for one in parts(item))] if isinstance(found, dict) else []


def test_the_items_of_an_array_are_a_schema_as_generators_of_clients_read_them(document: dict[str, Any]) -> None:
    arrays = [part for part in parts(document) if part.get("type") == "array"]
    assert len(arrays) > 50
    assert all(isinstance(part.get("items", {}), dict) for part in arrays)


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, one) for path, all_ in document["paths"].items() for method, one in all_.items()]


def test_every_operation_that_needs_somebody_says_how_it_refuses(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        said = set(operation["responses"])
        if operation.get("security"):
            assert {"401", "403", "404", "422"} <= said, (method, path)
        if "requestBody" in operation:
            assert {"408", "413"} <= said, (method, path)
        for status in said:
            response = operation["responses"][status]
            if status.startswith("4") and "$ref" in response:
                assert "application/problem+json" in at(document, response["$ref"])["content"]


@pytest.mark.parametrize("body", [spec(), {"job": "abc"}, {"job": "abc", "overrides": {"train.steps": 5}}])
def test_what_may_be_submitted_fits_the_schema(document: dict[str, Any], body: dict[str, Any]) -> None:
    validator(document, "/api/v1/runs").validate(body)


@pytest.mark.parametrize("body", [{}, {"job": 5}, spec(train={"steps": "many"}), spec(unknown=1), {"job": "a", "x": 1}])
def test_what_is_refused_does_not(document: dict[str, Any], body: dict[str, Any]) -> None:
    assert not validator(document, "/api/v1/runs").is_valid(body)


def validator(document: dict[str, Any], path: str) -> jsonschema_rs.Draft202012Validator:
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


def test_refusals_are_as_the_document_says(document: dict[str, Any], as_: Any, cast: Cast) -> None:
    run = make_run(cast, status=Status.RUNNING)
    problem = {**document["components"]["schemas"]["Problem"], "components": document["components"]}
    answers = [
        Api()("GET", "/runs"),
        as_("viewer")("POST", f"/runs/{run.pk}/stop"),
        as_("outsider")("GET", f"/runs/{run.pk}"),
        as_("mate")("POST", f"/runs/{run.pk}/restart"),
        as_("mate")("POST", "/runs", {"name": ""}),
    ]
    assert [one.status_code for one in answers] == [401, 403, 404, 409, 422]
    for one in answers:
        jsonschema_rs.validate(problem, one.json())
        assert one["Content-Type"] == "application/problem+json"

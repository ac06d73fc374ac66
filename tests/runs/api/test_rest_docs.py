"""docs/rest.md and the routes are equal, both ways, and the OpenAPI document is one that tools can read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runs.api import api
from tests.runs.api.conftest import Api

DOCS = Path(__file__).parents[3] / "docs" / "rest.md"
OPERATIONS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(api.get_openapi_schema(path_prefix="/api/v1/"))


def served(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in document["paths"].items()
        for method in operations
        if method in OPERATIONS
    }


def test_every_route_is_documented_and_every_documented_route_is_there(document: dict[str, Any]) -> None:
    described = set(re.findall(r"^### `([A-Z]+) (/\S*)`$", DOCS.read_text(), re.MULTILINE))
    assert described == served(document)


def test_every_documented_route_has_a_command_that_calls_it() -> None:
    for part in re.split(r"^### ", DOCS.read_text(), flags=re.MULTILINE)[1:]:
        heading, rest = part.split("\n", 1)
        method, path = re.findall(r"`([A-Z]+) (/\S*)`", heading)[0]
        code = "\n".join(re.findall(r"```sh\n(.*?)```", rest.split("\n## ")[0], re.DOTALL))
        pattern = re.sub(r"\\{\w+\\}", r"[^\\s\"'?]+", re.escape(path))
        assert re.search(rf"/api/v1{pattern}[\s\"'?]", code), heading
        used = re.search(r"-X ([A-Z]+)", code)
        implied = "POST" if re.search(r"(--data-binary|--json|-d) ", code) else "GET"
        assert (used.group(1) if used else implied) == method, heading


def test_the_openapi_document_is_served_and_whole(document: dict[str, Any]) -> None:
    served_document = Api()("GET", "/openapi.json").json()
    assert served_document["openapi"].startswith("3.1")
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(names) == len(set(names))
    known = set(document["components"]["schemas"])
    used = set(re.findall(r"#/components/schemas/([\w\-.\[\]]+)", str(document)))
    assert used <= known


def test_its_page_loads_nothing_from_elsewhere() -> None:
    page = Api()("GET", "/docs").content.decode()
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert not re.search(r"<script(?![^>]*(src=|application/json))", page)


def test_what_every_operation_needs_is_said(document: dict[str, Any]) -> None:
    open_to_all = {("GET", "/health"), ("POST", "/nodes/join"), ("GET", "/authorities")}
    for method, path in served(document):
        operation = document["paths"][f"/api/v1{path}"][method.lower()]
        assert bool(operation.get("security")) == ((method, path) not in open_to_all), (method, path)

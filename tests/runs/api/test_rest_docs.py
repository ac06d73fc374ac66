"""The pages docs/rest_*.md list the routes, and the OpenAPI document is one that tools can read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runs.api import api
from tests.printed_pages.rest import PAGES, documented
from tests.runs.api.conftest import Api

DOCS = Path(__file__).parents[3] / "docs"
TEXT = "\n".join((DOCS / f"{page}.md").read_text() for page in PAGES)
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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_lists_the_operations_of_the_code(page: str) -> None:
    printed = f"put what `manage.py rest {page}` prints at the end of docs/{page}.md"
    assert (DOCS / f"{page}.md").read_text().endswith("\n\n" + documented(page)), printed


def test_each_operation_stands_once_on_the_pages(document: dict[str, Any]) -> None:
    listed = re.findall(r"^### `([A-Z]+) (/\S*)`$", TEXT, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == served(document)
    assert {path.stem for path in DOCS.glob("rest_*.md")} == set(PAGES)


def test_every_operation_with_a_body_or_a_needed_parameter_has_an_example(document: dict[str, Any]) -> None:
    for part in re.split(r"^### (?=`)", TEXT, flags=re.MULTILINE)[1:]:
        method, path = re.findall(r"`([A-Z]+) (/\S*)`", part)[0]
        if path.startswith("/node/"):  # nobody calls it by hand
            continue
        operation = document["paths"][f"/api/v1{path}"][method.lower()]
        is_needed = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query" and one["required"]]
        if is_needed or operation.get("requestBody", {}).get("required"):
            assert "\nExample: `" in part, (method, path)


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

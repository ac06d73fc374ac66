"""A list that is narrowed to something by its name says where there is no such thing, instead of being empty."""

from __future__ import annotations

import json

import pytest

from runs.api import api
from tests.cast import Cast, make_user
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.usefixtures("valkey")

NAMES = {"project", "cluster", "run", "user", "node", "job", "sweep", "group"}
TEXTS = {"/audit", "/audit/export"}  # filters of what was written down, of what is gone now too


def narrowed() -> list[tuple[str, str]]:
    """Return the lists that take such a name, and the name of that parameter."""
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="")))
    return [
        (path, one["name"])
        for path, methods in document["paths"].items()
        for one in methods.get("get", {}).get("parameters", [])
        if one["in"] == "query" and one["name"] in NAMES and path not in TEXTS
    ]


def test_many_lists_are_looked_at() -> None:
    found = narrowed()
    assert {("/runs", "project"), ("/nodes", "cluster"), ("/tokens", "user"), ("/series", "run")} <= set(found)


@pytest.mark.parametrize(("path", "name"), narrowed())
def test_what_one_does_not_see_is_404(cast: Cast, path: str, name: str) -> None:
    root = make_user("root", is_staff=True, is_superuser=True)
    assert Api(root)("GET", f"{path}?{name}=nope").status_code == 404

"""A NUL in an address or a body is refused, though PostgreSQL, unlike SQLite, takes none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cast import spec
from tests.runs.api.conftest import Api


@pytest.mark.parametrize("path", ["/runs/a%00b", "/projects/%00", "/nodes/%00", "/runs?q=%00", "/runs?project=%00"])
def test_an_address_with_nul_finds_nothing(mate: Api, path: str) -> None:
    answer = mate("GET", path)
    assert answer.status_code in (404, 422) or answer.json()["items"] == []


@pytest.mark.parametrize("path,body", [("/runs", spec(tags=["a\0b"])), ("/tokens", {"name": "a\0b"})])
def test_a_body_with_nul_is_no_failure_of_the_server(mate: Api, path: str, body: Any) -> None:
    assert mate("POST", path, body).status_code in (201, 422)

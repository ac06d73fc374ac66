"""Which views look at a session: nothing is asked of one where nobody, or a node, is answered."""

from __future__ import annotations

import pytest
from django.urls import resolve

from dashboard.http.signed_in import takes_session


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/health", False),
        ("GET", "/api/v1/authorities", False),
        ("POST", "/api/v1/nodes/join", False),
        ("POST", "/api/v1/node/gone-runs", False),
        ("GET", "/api/v1/nodes", True),
        ("POST", "/api/v1/plans", True),
        ("GET", "/api/v1/what/there/is/not", True),
        ("GET", "/", True),
        ("GET", "/admin/", True),
    ],
)
def test_what_takes_a_session(method: str, path: str, expected: bool) -> None:
    assert takes_session(resolve(path).func, method) is expected

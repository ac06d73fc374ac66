"""Clients of the API: one per person of the cast, each with a token."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.models import User
from tests.cast import Cast


class Api:
    """Talks to the API as one person, or as nobody."""

    def __init__(self, user: User | None = None) -> None:
        self.client = Client(raise_request_exception=False)
        self.headers: dict[str, str] = {}
        if user is not None:
            _, secret = actions.create_token(actor=user, name="test")
            self.headers["Authorization"] = f"Bearer {secret}"

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        words = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        return self.client.generic(method, f"/api/v1{path}", data, content_type=kind, headers={**self.headers, **words})


@pytest.fixture
def as_(cast: Cast) -> Callable[[str], Api]:
    """``as_("mate")``: the API as that person of the cast; ``as_("")``: as nobody."""
    return lambda name: Api(getattr(cast, name) if name else None)


@pytest.fixture
def mate(as_: Callable[[str], Api]) -> Api:
    return as_("mate")

"""Browsers of the cast: Django's test client, signed in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs.models import User

VERBATIM = re.compile(r"(<(pre|textarea|script|code)\b.*?</\2>)", re.DOTALL)
BETWEEN_TAGS, IN_TEXT = re.compile(r">\s*\n\s*<"), re.compile(r"\s*\n\s*")


class Browser(Client):
    """A client that reads pages as a browser does: a line break of a template is a space, or nothing between tags."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.content = as_read(response.content.decode()).encode()
        return response


def as_read(page: str) -> str:
    parts = VERBATIM.split(page)
    return "".join(
        part if index % 3 == 1 else IN_TEXT.sub(" ", BETWEEN_TAGS.sub("><", part))
        for index, part in enumerate(parts)
        if index % 3 != 2  # the name of the verbatim tag
    )


@pytest.fixture
def as_user(settings: object) -> Callable[[User], Client]:
    """``as_user(person)``: a client that is signed in as that person. Styles and scripts keep their plain names."""
    settings.STORAGES = {  # type: ignore[attr-defined]
        **settings.STORAGES,  # type: ignore[attr-defined]
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }

    def sign_in(user: User) -> Client:
        client = Browser()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def anybody(as_user: object) -> Client:
    """A client that is not signed in."""
    return Browser()

"""Browsers of the cast: Django's test client, signed in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import User


@pytest.fixture
def as_user(settings: object) -> Callable[[User], Client]:
    """``as_user(person)``: a client that is signed in as that person. Styles and scripts keep their plain names."""
    settings.STORAGES = {  # type: ignore[attr-defined]
        **settings.STORAGES,  # type: ignore[attr-defined]
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }

    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def anybody(as_user: object) -> Client:
    """A client that is not signed in."""
    return Client()

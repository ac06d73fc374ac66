"""What is asked of whoever comes with a session, before a page answers."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs.models import Token
from runs.people.identity.providers import SignInSettings
from tests.cast import Cast
from tests.dashboard.pages.account.test_security import make_stale

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


@pytest.mark.parametrize("header", ["Bearer nobody", "Basic x", ""])
def test_a_header_of_credentials_spares_a_session_nothing(cast: Cast, settings: Any, header: str) -> None:
    """Pages take the session whatever else a request brings, such as the password of a proxy in front."""
    client = Client(headers={"Authorization": header})
    client.force_login(cast.mate)
    make_stale(client)
    answer = client.post("/account/tokens/", {"name": "x", "days": ""})
    assert answer["Location"].startswith("/sign-in/second/") and not Token.objects.exists()
    settings.SIGN_IN = SignInSettings(second_factor="everybody")
    assert client.get("/runs/").headers.get("Location") == "/account/security/"

"""A cookie of a browser in which this person signed in before. It opens nothing; attempts there are counted apart."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

NAME = f"trainyard-browser-{settings.PORT}"
AGE_S = 90 * 24 * 3600
SALT = "known-browser"


def browser_of(request: HttpRequest, username: str) -> str:
    """Return the name of this browser where that person signed in with it before, else ""."""
    try:
        name, browser = signing.loads(request.COOKIES.get(NAME, ""), salt=SALT, max_age=AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(browser) if name == username else ""


def remember(request: HttpRequest, response: HttpResponse, username: str) -> None:
    browser = browser_of(request, username) or secrets.token_urlsafe(12)
    response.set_cookie(
        NAME,
        signing.dumps([username, browser], salt=SALT),
        max_age=AGE_S,
        secure=settings.IS_TLS,
        httponly=True,
        samesite="Lax",
        path="/sign-in/",
    )

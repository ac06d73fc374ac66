"""The content-security policy: what a page may load and run. Ours is strict; the admin evaluates its templates."""

import secrets
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

# Our pages run no inline script but the import map, which carries the nonce, and no inline style at all: our
# modules set styles through the object model, which the policy does not touch.
STRICT = {
    "default-src": "'none'",
    "script-src": "'self' 'nonce-{nonce}'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "media-src": "blob:",  # a sound that our scripts have fetched
    "font-src": "'self'",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
# unfold runs Alpine, which evaluates the attributes of its templates, and both it and Swagger style inline. Inline
# scripts run nowhere: decisions/security.md says what is left and why.
LOOSER = {
    **STRICT,
    "script-src": "'self' 'nonce-{nonce}' 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
}
DOCS = {**STRICT, "style-src": "'self' 'unsafe-inline'"}
BY_PATH = (("/admin/", LOOSER), ("/api/v1/docs", DOCS))


def policy(path: str, nonce: str) -> str:
    rules = next((rules for prefix, rules in BY_PATH if path.startswith(prefix)), STRICT)
    return "; ".join(f"{name} {value}" for name, value in rules.items()).replace("{nonce}", nonce)


@sync_and_async_middleware
def security_headers(get_response: Any) -> Any:
    """Give the request ``csp_nonce``, for the import map of its page, and the response its headers."""

    async def answer_async(request: HttpRequest) -> HttpResponseBase:
        nonce = give_nonce(request)
        return protect(request, await get_response(request), nonce)

    def answer(request: HttpRequest) -> HttpResponseBase:
        nonce = give_nonce(request)
        return protect(request, get_response(request), nonce)

    return answer_async if iscoroutinefunction(get_response) else answer


def give_nonce(request: HttpRequest) -> str:
    nonce = secrets.token_urlsafe(16)
    request.csp_nonce = nonce  # type: ignore[attr-defined]
    return nonce


def protect(request: HttpRequest, response: HttpResponseBase, nonce: str) -> HttpResponseBase:
    """Set the headers, unless the view has a stricter policy of its own (files that users made)."""
    response.headers.setdefault("Content-Security-Policy", policy(request.path, nonce))
    response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response

"""Every answer carries a content-security policy that fits its path."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse

from dashboard.http.content_policy import policy, security_headers


def answer(path: str, **headers: str) -> tuple[HttpRequest, HttpResponse]:
    request = HttpRequest()
    request.path = path
    return request, security_headers(lambda _: HttpResponse("ok", headers=headers))(request)


def test_a_page_runs_our_files_and_the_script_with_its_nonce() -> None:
    request, response = answer("/runs/")
    said = response["Content-Security-Policy"]
    assert f"script-src 'self' 'nonce-{request.csp_nonce}';" in said  # type: ignore[attr-defined]
    assert "style-src 'self';" in said
    assert "unsafe" not in said


def test_a_nonce_is_never_used_twice() -> None:
    assert len({answer("/")[0].csp_nonce for _ in range(50)}) == 50  # type: ignore[attr-defined]


def test_the_admin_may_evaluate_what_its_templates_say() -> None:
    scripts = next(rule for rule in policy("/admin/runs/run/", "n").split("; ") if rule.startswith("script-src"))
    assert scripts == "script-src 'self' 'nonce-n' 'unsafe-eval'", "and no inline script without the nonce"


@pytest.mark.parametrize("path", ["/", "/administrators/", "/api/v1/runs", "/runs/admin/"])
def test_nothing_else_may(path: str) -> None:
    assert "unsafe" not in policy(path, "n")


def test_a_view_with_a_stricter_policy_keeps_it() -> None:
    _, response = answer("/runs/a/files/b", **{"Content-Security-Policy": "sandbox"})
    assert response["Content-Security-Policy"] == "sandbox"


async def test_it_works_for_views_that_are_awaited() -> None:
    async def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse("ok")

    request = HttpRequest()
    request.path = "/"
    response = await security_headers(view)(request)
    assert "Content-Security-Policy" in response

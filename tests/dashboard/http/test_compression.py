"""Pages leave compressed, of a length that gives nothing away; what is dense, streamed or foreign stays as it is."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client

from dashboard.http.asgi import CompressionMiddleware
from runs.models import Run
from tests.cast import Cast

LONG = "<p>the same words, over and over</p>" * 200


def answer(body: HttpResponseBase, path: str = "/runs/", **headers: str) -> HttpResponseBase:
    request = HttpRequest()
    request.path = path
    request.META.update({"HTTP_ACCEPT_ENCODING": "gzip, deflate", **headers})
    found: HttpResponseBase = CompressionMiddleware(lambda _: body)(request)
    return found


def test_a_page_is_compressed_as_a_browser_asks_for_it(cast: Cast, make_run: Callable[..., Run]) -> None:
    for index in range(15):
        make_run(name=f"run-{index}")
    client = Client(headers={"accept-encoding": "gzip"})
    client.force_login(cast.mate)
    found = client.get("/runs/")
    plain = gzip.decompress(found.content)
    assert found["Content-Encoding"] == "gzip" and "Accept-Encoding" in found["Vary"]
    assert b"run-14" in plain and 5 * len(found.content) < len(plain)


def test_who_takes_no_gzip_gets_none(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.mate)
    assert "Content-Encoding" not in client.get("/runs/")


def test_the_same_page_has_many_lengths() -> None:
    lengths = {len(answer(HttpResponse(LONG)).content) for _ in range(40)}  # type: ignore[attr-defined]
    assert len(lengths) > 5


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_for_is_not_compressed(site: str) -> None:
    assert "Content-Encoding" not in answer(HttpResponse(LONG), HTTP_SEC_FETCH_SITE=site)
    assert answer(HttpResponse(LONG), HTTP_SEC_FETCH_SITE="same-origin")["Content-Encoding"] == "gzip"


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/gzip"])
def test_what_is_dense_already_stays_as_it_is(kind: str) -> None:
    assert "Content-Encoding" not in answer(HttpResponse(LONG, content_type=kind))


def test_what_is_short_or_of_the_static_files_stays_as_it_is() -> None:
    assert "Content-Encoding" not in answer(HttpResponse("<p>short</p>"))
    assert "Content-Encoding" not in answer(HttpResponse(LONG), path="/static/page.html")


def test_what_is_streamed_leaves_part_by_part() -> None:
    def parts() -> Iterator[str]:
        yield from (LONG, "the end")

    found = answer(StreamingHttpResponse(parts(), content_type="application/json"))
    assert "Content-Encoding" not in found
    assert list(found)[-1] == b"the end"  # type: ignore[call-overload]

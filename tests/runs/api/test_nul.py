"""A NUL in an address or a body is refused, though PostgreSQL, unlike SQLite, takes none."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.cast import Cast, spec
from tests.runs.api.conftest import Api

DATASET = {"name": "a", "source": "text", "location": "/a\0b", "project": "default"}


@pytest.mark.parametrize(
    "path",
    [
        "/runs/a%00b",
        "/datasets/%00",
        "/datasets?name=%00",
        "/projects/%00",
        "/nodes/%00",
        "/runs?q=%00",
        "/runs?project=%00",
    ],
)
def test_an_address_with_nul_finds_nothing(mate: Api, path: str) -> None:
    answer = mate("GET", path)
    assert answer.status_code in (404, 422) or answer.json()["items"] == []


@pytest.mark.parametrize(
    "path,body", [("/runs", spec(tags=["a\0b"])), ("/tokens", {"name": "a\0b"}), ("/datasets", DATASET)]
)
def test_a_body_with_nul_is_no_failure_of_the_server(mate: Api, path: str, body: Any) -> None:
    assert mate("POST", path, body).status_code in (201, 422)


PAGES = (
    *(f"/runs/?{name}=%00" for name in ("q", "tag", "project", "view", "sort", "cursor")),
    "/runs/?q=a%00b&fragment=table",
    "/jump/?q=%00",
    "/jobs/?q=%00",
    "/people/?project=%00",
    "/launch/?from=run:%00",
    "/launch/?from=job:%00",
    "/launch/?from=dataset:%00",
    "/data/?q=%00",
    "/sign-in/%00/",
    "/invitations/%00/",
    "/%00/",
)
FORMS = ("/account/tokens/", "/people/new-project/", "/launch/preview/", "/data/new/")


# The site's pages are asked here and not beside their other tests, since this folder is tested on PostgreSQL too; and
# without a transaction around them, which an error of PostgreSQL would end.
@pytest.mark.django_db(transaction=True)
def test_a_page_or_a_form_with_nul_answers(cast: Cast) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(cast.mate)
    answers = {path: client.get(path) for path in PAGES}
    answers |= {path: client.post(path, {"name": "a\0b", "cluster": "\0", "project": "\0"}) for path in FORMS}
    assert [path for path, answer in answers.items() if answer.status_code >= 500] == []

"""The Media tab, as the server sends it; what is on it comes over REST."""

from __future__ import annotations

from html import unescape

import pytest

from dashboard.pages.run.views import MEDIA_EXAMPLE
from runs.values.status import Status
from tests.cast import Cast
from tests.dashboard.pages.run.test_run_page import AsUser, MakeRun, text_of

pytestmark = pytest.mark.django_db


def test_the_tab_says_where_its_data_is(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/media/")
    assert f'data-module="media" data-api="/api/v1/runs/{run.pk}/media"' in text
    assert f'href="/runs/{run.pk}/media/" aria-current="page"' in text


@pytest.mark.parametrize(("status", "words"), [(Status.RUNNING, "appear here"), (Status.FAILED, "ended without")])
def test_who_has_none_is_shown_the_lines_that_log_some(
    status: Status, words: str, cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    text = unescape(text_of(as_user(cast.viewer), f"/runs/{make_run(status=status).pk}/media/"))
    assert words in text
    assert MEDIA_EXAMPLE in text

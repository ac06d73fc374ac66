"""How a column's values are spread, as its menu shows it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client

from runs.finding import columns
from runs.finding.index import Building
from runs.models import Project, Run, User
from tests.cast import Cast, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def asked(client: Client, name: str, **more: str) -> HttpResponse:
    return client.get("/runs/", {"fragment": "spread", "of": name, **more})  # type: ignore[return-value]


def test_bars_stand_for_the_runs_that_one_sees_and_that_fit(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for number, loss in enumerate((1.0, 1.0, 3.0, None)):
        run = make_run(name=f"r{number}", spec=spec(train={"batch_size": 2**number}))
        if loss is not None:
            write_series(run, "val/loss", [loss])
    write_series(make_run(name="secret", project=Project.objects.create(name="other")), "val/loss", [9.0])
    client = as_user(cast.viewer)
    text = asked(client, "summary.val/loss.last").content.decode()
    assert "3 from 1 to 3; 1 without a value" in text
    heights = [float(one) for one in re.findall(r'height="([\d.]+)"', text)]
    assert (len(heights), heights[0], heights[-1], sum(heights)) == (24, 40.0, 20.0, 60.0)
    assert 'data-low="1.0"' in text and 'data-high="3.0"' in text
    assert "2 from 1 to 1" in asked(client, "summary.val/loss.last", filter="train.batch_size < 4").content.decode()


def test_the_most_frequent_texts_are_offered_as_texts(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for host in ("<b>a", "<b>a", "c"):
        make_run(config={"host": host})
    text = asked(as_user(cast.viewer), "config.host").content.decode()
    assert re.findall(r'data-text="([^"]+)">[^<]+<small class="muted">(\d+)', text) == [("&lt;b&gt;a", "2"), ("c", "1")]
    assert "3 with a text" in text and "<svg" not in text
    make_run(config={"host": 7})
    assert "1 from 7 to 7; 3 with a text" in asked(as_user(cast.viewer), "config.host").content.decode()


def test_a_column_without_values_and_one_that_there_is_not(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run()
    client = as_user(cast.viewer)
    assert "No run has a value." in asked(client, "summary.nothing.last").content.decode()
    for name, more in (("nothing", {}), ("summary.val/loss.last", {"filter": "status ="})):
        refused = asked(client, name, **more)
        assert refused.status_code == 400
    assert "is no field" in asked(client, "nothing").content.decode()


def test_a_column_that_is_still_being_read_says_so_and_is_asked_for_again(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns.index, "column", refuse)
    make_run()
    waiting = asked(as_user(cast.viewer), "config.host")
    assert waiting.status_code == 202
    assert "The values are being read: 40% of the runs so far." in waiting.content.decode()


def refuse(*_: object, **__: object) -> None:
    raise Building("config.host", 0.4)

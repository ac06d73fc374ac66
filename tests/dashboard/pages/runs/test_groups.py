from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client

from runs.models import Project, Run, User
from tests.cast import Cast, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
COLUMNS = {"columns": "summary.val/loss.min", "group": "train.batch_size"}


@pytest.fixture
def planted(cast: Cast, make_run: MakeRun) -> None:
    for name, size, loss in (("a", 8, 3.0), ("b", 8, 2.0), ("c", 16, 2.5), ("d", 16, None)):
        run = make_run(name=name, spec=spec(train={"batch_size": size}))
        if loss is not None:
            write_series(run, "val/loss", [9.0, loss])
    make_run(name="secret", project=Project.objects.create(name="other"))


def text_of(client: Client, **asked: str) -> str:
    answer = client.get(f"/runs/?{urlencode({**COLUMNS, **asked})}")
    assert answer.status_code == 200
    return answer.content.decode()


def lines(text: str) -> list[str]:
    """The words of each line of a group, without markup."""
    found = re.findall(r'<tr role="row" class="grid-group".*?</tr>', text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", one).split()) for one in found]


@pytest.mark.usefixtures("planted")
def test_groups_say_how_many_runs_they_have_and_what_these_reached(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    text = text_of(client, sort="summary.val/loss.min")
    assert lines(text) == ["batch_size 8 2 runs best 2 mean 2.50, 2 to 3", "batch_size 16 2 runs best 2.50"]
    assert "4 runs in 2 groups" in " ".join(text.split()) and ">a</a>" not in text
    assert lines(text_of(client, sort="-train.batch_size"))[0].startswith("batch_size 16")
    assert re.findall(r'<td[^>]* data-label="val/loss min"[^>]*><span class="grid-figure"', text)


@pytest.mark.usefixtures("planted")
def test_a_group_is_unfolded_by_the_address_and_its_runs_are_in_order(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    toggled = re.findall(r'data-toggled="([^"]+)"', text_of(client, sort="summary.val/loss.min"))
    text = text_of(client, sort="summary.val/loss.min", open=toggled[0])
    assert text.index(">b</a>") < text.index(">a</a>") < text.index("batch_size 16")
    assert "data-open>c</a>" not in text and text.count('aria-expanded="true" data-toggled') == 1


def test_a_group_of_any_text_is_opened_by_the_filter_that_its_runs_fit(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    word = "\"<b>q</b>\" and 'x', y@2!"
    make_run(name="odd", spec={"name": "odd", "task": {"script": word}})
    make_run(name="none", spec={"name": "none"})
    client = as_user(cast.viewer)
    asked = {"group": "task.script,status"}
    text = text_of(client, **asked)
    assert "<b>q" not in text and len(lines(text)) == 2
    for toggled, name in zip(re.findall(r'data-toggled="([^"]+)"', text), ("odd", "none"), strict=True):
        opened = text_of(client, **asked, open=unescape(toggled))
        assert f">{name}</a>" in opened


def test_a_group_by_no_field_is_said_and_the_runs_are_listed(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="hello")
    text = text_of(as_user(cast.viewer), group="nonsense.x")
    assert "The runs are in no groups." in text and ">hello</a>" in text


def test_all_that_runs_are_shown_and_filtered_by_is_named(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="hello", tags=["<i>blue</i>"], created_by=cast.mate)
    write_series(run, "val/loss", [1.0])
    found = as_user(cast.viewer).get("/runs/?fragment=names").json()
    names = {one["name"] for one in found["names"]}
    assert {"status", "train.steps", "summary.val/loss.best", "spark:val/loss", "progress"} <= names
    assert found["values"]["tag"] == ["<i>blue</i>"] and "mate" in found["values"]["user"]
    assert as_user(cast.outsider).get("/runs/?fragment=names").json()["values"]["user"] == []


def test_rows_are_coloured_by_a_field_with_a_legend(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for name, script in (("one", "<b>x</b>.py"), ("two", "y.py"), ("three", "y.py")):
        make_run(name=name, spec={"name": name, "task": {"script": script}})
    make_run(name="none", spec={"name": "none"})
    client = as_user(cast.viewer)
    page = client.get("/runs/?colour=task.script")
    assert [tuple(one) for one in page.context["colouring"].swatches] == [(1, "y.py"), (2, "<b>x</b>.py")]
    text = page.content.decode()
    assert "<b>x" not in text and text.count('grid-edge series-1"') == 2 and text.count('grid-edge series-2"') == 1
    assert client.get("/runs/?fragment=rows&colour=task.script").content.count(b'grid-edge series-1"') == 2
    assert "The rows have no colours." in client.get("/runs/?colour=nonsense.x").content.decode()
    assert client.get("/runs/?fragment=rows&colour=nonsense.x").status_code == 200


def test_numbers_have_the_colours_of_their_ranges(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for steps in (1, 2, 100):
        make_run(name=f"of-{steps}", spec=spec(train={"steps": steps}))
    text = as_user(cast.viewer).get("/runs/?colour=train.steps").content.decode()
    assert text.count('grid-edge series-1"') == 2 and text.count('grid-edge series-5"') == 1

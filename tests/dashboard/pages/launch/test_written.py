"""The text of the spec on the launch form: changed by hand, or a file that was dropped there."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
import yaml
from django.test import Client

from dashboard.pages.launch.views import MAX_YAML
from runs.models import Run, User
from tests.cast import Cast, make_node
from tests.dashboard.pages.launch.test_launch import form
from tests.trainyard.spec.test_document import EXPLODING

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
SPEC = "name: written\ntask: {recipe: tabular}\ntrain:\n  steps: 77\n"


@pytest.fixture
def apply(as_user: AsUser, cast: Cast) -> Callable[..., Any]:
    make_node(cast.cluster)

    def send(text: str, **changes: str) -> Any:
        return as_user(cast.mate).post("/launch/", form(**{"do": "apply", "yaml": text, **changes}))

    return send


def written(answer: Any) -> str:
    text = answer.content.decode()
    return unescape(text[text.index('name="yaml"') :].partition(">\n")[2].partition("</textarea>")[0])


def test_the_form_is_filled_from_it(apply: Callable[..., Any]) -> None:
    answer = apply(SPEC.replace("\n", "\r\n"))
    text = answer.content.decode()
    assert answer.status_code == 200 and 'value="written"' in text and 'value="77"' in text
    assert 'id="task-tabular" checked' in text and not Run.objects.exists()
    assert yaml.safe_load(written(answer))["train"]["steps"] == 77, "and the text is the form's again"


def test_a_sweep_fills_its_card_too_and_a_spec_leaves_it_alone(apply: Callable[..., Any]) -> None:
    sweep = {"name": "search", "base": yaml.safe_load(SPEC), "space": {"train.weight_decay": {"low": 0.1, "high": 0.3}},
             "objective": {"metric": "val/loss"}, "budget": {"trials": 9}}  # fmt: skip
    text = apply(yaml.safe_dump({"sweep": sweep})).content.decode()
    assert 'value="search"' in text and "Launch a sweep" in text and "9 trials" in text
    varied = {"sweep": "1", "vary": "train.seed", "space:values:train.seed": "1, 2"}
    assert "train.seed" in apply(SPEC, **varied).content.decode().partition('data-entries="')[2].partition('">')[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\ntask: {recipe: tabular}\ntrain:\n  steps: soon\n", 'Line 4: <b class="mono">train.steps</b>'),
        ("name: x\ntask: {recipe: tabular}\ntrain:\n  speed: 3\n", 'Line 4: <b class="mono">train.speed</b>'),
        ("name: x\n", 'Line 1: <b class="mono">task</b>'),
        ("sweep:\n  name: x\n  budget: {trials: many}\n", "Line 3: "),
        ("name: x\ntask: [", "line 2, column 8"),
        ("name: x\nname: y\n", "is there twice"),
        ("- 1\n", "a spec is a map"),
        ("", "a spec is a map"),
        ("a: &a [1]\nb: *a\n<: <b>\n", "&lt;b&gt;"),
        (EXPLODING, "aliases (*name) stand for more than 50,000 values"),
        ("#" * (MAX_YAML + 1), "at most 1,048,576 are read"),
        ("name: \0", "special characters are not allowed"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_wrong_is_said_beside_it_and_the_form_and_the_text_stay(
    apply: Callable[..., Any], text: str, words: str
) -> None:
    answer = apply(text, **{"train.steps": "4711"})
    page = answer.content.decode()
    assert answer.status_code == 422 and "The form was not filled." in page and words in page
    assert 'value="4711"' in page and (not text.strip() or written(answer).strip() == text.strip())


def test_text_that_was_not_applied_stays_when_a_launch_is_refused(apply: Callable[..., Any]) -> None:
    answer = apply(SPEC, do="launch", **{"train.steps": "soon"})
    assert answer.status_code == 422 and written(answer).strip() == SPEC.strip()

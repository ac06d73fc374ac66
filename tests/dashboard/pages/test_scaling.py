"""A scaling study on its page, and the small form on a run's page that starts one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Run, Sweep, User
from runs.sweeps.scaling import start_scaling
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run, spec
from trainyard.contract.statuses import TrialState
from trainyard.spec import parse_spec

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
FETCH = {"X-Requested-With": "fetch"}


@pytest.fixture
def run(cast: Cast) -> Run:
    make_node(cast.cluster, "node-a")
    return make_run(cast, name="<b>mine", status=Status.SUCCEEDED, spec=dict(parse_spec(spec()).resolved()))


def test_the_form_of_a_run_starts_a_study_and_leads_to_it(as_user: AsUser, cast: Cast, run: Run) -> None:
    mate = as_user(cast.mate)
    assert f'action="/runs/{run.pk}/scale/" data-module="dialog"' in mate.get(f"/runs/{run.pk}/").content.decode()
    dialog = mate.post(f"/runs/{run.pk}/scale/?fragment=dialog").content.decode()
    assert 'value="1, 2, 4"' in dialog and "&lt;b&gt;mine" in dialog and "<b>mine" not in dialog
    typed = {"ranks": "1, 2", "steps": "20"}
    done = mate.post(f"/runs/{run.pk}/scale/?fragment=form", typed, headers=FETCH).content.decode()
    sweep = Sweep.objects.get()
    assert f'href="/sweeps/{sweep.pk}/"' in done
    assert (sweep.created_by, sweep.base_spec["train"]["steps"]) == (cast.mate, 20)
    answer = mate.post(f"/runs/{run.pk}/scale/", typed)
    assert answer.status_code == 302 and answer["Location"].startswith("/sweeps/")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"ranks": "1; <i>"}, "ranks: &#x27;1; &lt;i&gt;&#x27; is no whole number; accepted: 1, 2, 4"),
        ({"ranks": "1"}, "ranks: must be 2 to 16 different numbers"),
        ({"ranks": "1,2", "steps": "many"}, "steps: &#x27;many&#x27; is no whole number"),
        ({"ranks": "1,4,8", "weak": "on"}, "ranks: fewer than two sizes can run"),
    ],
)
def test_a_refusal_stands_beside_what_was_typed(
    as_user: AsUser, cast: Cast, run: Run, typed: dict[str, str], words: str
) -> None:
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/scale/?fragment=form", typed, headers=FETCH)
    text = answer.content.decode()
    assert answer.status_code == 422 and words in text
    assert f'value="{typed["ranks"]}"'.replace("<", "&lt;").replace(">", "&gt;") in text
    assert ("checked" in text) == ("weak" in typed)
    assert not Sweep.objects.exists()


def test_who_may_launch_nothing_has_no_button(as_user: AsUser, cast: Cast, run: Run) -> None:
    viewer = as_user(cast.viewer)
    assert "/scale/" not in viewer.get(f"/runs/{run.pk}/").content.decode()
    assert viewer.post(f"/runs/{run.pk}/scale/", {"ranks": "1,2"}, headers=FETCH).status_code == 403


def test_the_page_of_a_study_has_sizes_verdict_and_chart_in_place_of_a_search(
    as_user: AsUser, cast: Cast, run: Run
) -> None:
    sweep = start_scaling(actor=cast.mate, document=dict(run.spec), ranks=[1, 2, 4])
    for number, pace in ((1, 1.0), (2, 1.8)):
        own = make_run(cast, name=f"size-{number}", status=Status.SUCCEEDED)
        sweep.trials.filter(number=number).update(state=TrialState.COMPLETE, value=pace, run=own)
    text = as_user(cast.mate).get(f"/sweeps/{sweep.pk}/").content.decode()
    assert "2 ranks train 1.8 times as fast as 1; 4 would bring" in text
    assert "Left out: cluster local can never hold 4 ranks." in text and "planner" in text
    assert 'aria-label="Speed-up over ranks. measured: last 1.80' in text
    assert "What matters" not in text and "Add a trial" not in text and "Clone the sweep" not in text
    fragment = as_user(cast.viewer).get(f"/sweeps/{sweep.pk}/?fragment=scaling").content.decode()
    assert "<html" not in fragment and "Left out" in fragment
    waiting = start_scaling(actor=cast.mate, document=dict(run.spec), ranks=[1, 2])
    assert "No size is measured" in as_user(cast.mate).get(f"/sweeps/{waiting.pk}/").content.decode()

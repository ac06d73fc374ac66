"""Sweeps: the list, the page of one, its table of trials, and what it does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from django.test import Client

from runs.api.sweeping.figures import figures_kept
from runs.models import Run, Sweep, Trial, User
from runs.records.metrics.models import Telemetry
from runs.values.status import Status
from tests.cast import Cast, make_run, spec
from trainyard.contract.answers.sweeps import Importance
from trainyard.spec.sweeps import parse_sweep

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
SPACE = {
    "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "train.optimizer": {"values": ["adamw", "sgd"]},
}
POSTED = (
    "do/stop/", "best/", "trials/", "space/", "delete/", "trials/2/promote/", "trials/2/launch/", "trials/2/replay/",
)  # fmt: skip


def make_sweep(cast: Cast, **changes: Any) -> Sweep:
    """A running sweep of the mate's without trials."""
    document = {
        "name": "find-rate", "base": spec(), "space": SPACE, "objective": {"metric": "val/loss"},
        "budget": {"trials": 20, "parallel": 2}, **changes.pop("document", {}),
    }  # fmt: skip
    values = {"name": document["name"], "created_by": cast.mate, "cluster": cast.cluster, **changes}
    parsed = parse_sweep(document)
    return Sweep.objects.create(project=cast.project, spec=parsed.as_document(), base_spec=spec(), **values)


def make_trial(cast: Cast, sweep: Sweep, number: int, value: float | None, rate: float, **changes: Any) -> Trial:
    """A complete trial whose run has succeeded."""
    values = {"state": "COMPLETE", "steps": 300, **changes}
    run = make_run(cast, name=f"{sweep.name}-{number}", status=Status.SUCCEEDED)
    parameters = {"train.learning_rate": rate, "train.optimizer": "sgd" if number % 2 else "adamw"}
    return Trial.objects.create(
        sweep=sweep, number=number, value=value, parameters=parameters, run=run, started_at=run.started_at,
        ended_at=run.ended_at, **values,
    )  # fmt: skip


def with_trials(cast: Cast) -> Sweep:
    sweep = make_sweep(cast)
    best = make_trial(cast, sweep, 0, 0.5, 1e-3)
    make_trial(cast, sweep, 1, 0.9, 1e-2)
    make_trial(cast, sweep, 2, 1.5, 5e-2, state="PRUNED", steps=100, pruned_at_step=100)
    make_trial(cast, sweep, 3, None, 9e-2, state="FAILED", reason="It diverged.")
    sweep.best = best
    sweep.save()
    return sweep


def test_the_list_teaches_when_it_is_empty_and_shows_progress_and_the_best(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    text = client.get("/sweeps/").content.decode()
    assert "tries values of the fields" in text and "trainyard sweep" in text
    with_trials(cast)
    text = client.get("/sweeps/").content.decode()
    assert "find-rate" in text and "4 / 20" in text and "0.500" in text and "trial 0" in text


def test_the_page_has_the_best_trial_the_buttons_and_every_trial_with_its_run(as_user: AsUser, cast: Cast) -> None:
    sweep = with_trials(cast)
    text = as_user(cast.mate).get(f"/sweeps/{sweep.pk}/").content.decode()
    run = Run.objects.get(name="find-rate-1")
    assert "with three seeds" in text and "Pause" in text and "4 trials" in text and f"/runs/{run.pk}/" in text
    assert "It diverged." in text and "learning_rate" in text and text.count("row-check") == 4


def test_a_fragment_that_there_is_not_is_the_whole_page(as_user: AsUser, cast: Cast) -> None:
    client, sweep = as_user(cast.viewer), make_sweep(cast)
    assert client.get(f"/sweeps/{sweep.pk}/?fragment=nosuch").status_code == 200


def test_the_name_of_a_trials_button_begins_with_its_words(as_user: AsUser, cast: Cast) -> None:
    text = as_user(cast.mate).get(f"/sweeps/{with_trials(cast).pk}/").content.decode()
    assert 'aria-label="Launch again trial 1"' in text and "Launch trial 1 again with" in text


def test_a_sweep_that_succeeded_with_fewer_trials_is_full(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    assert '<progress max="20" value="4"' in client.get(f"/sweeps/{sweep.pk}/?fragment=head").content.decode()
    sweep.status = "SUCCEEDED"
    sweep.save()
    text = client.get(f"/sweeps/{sweep.pk}/?fragment=head").content.decode()
    assert '<progress max="4" value="4"' in text and "<b>4</b> of at most 20 trials" in text


def test_a_brush_a_state_and_an_order_choose_the_rows(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)

    def shown(query: str) -> list[int]:
        page = client.get(f"/sweeps/{sweep.pk}/?fragment=rows&{query}").content.decode()
        return [int(part.split('"')[0]) for part in page.split('data-key="trial-')[1:]]

    assert shown("") == [3, 2, 1, 0] and shown("sort=value:0") == [0, 1, 2, 3] and shown("state=pruned") == [2]
    assert shown("brush=train.learning_rate|0.0005..0.02") == [1, 0]
    assert shown("brush=train.optimizer=sgd&sort=train.learning_rate") == [1, 3]
    assert shown("brush=value:0|0.4..1&brush=train.optimizer=adamw") == [0]
    assert shown("brush=nonsense") == [3, 2, 1, 0] and shown("brush=value:0|0..0.1") == []


def test_a_long_table_goes_on_where_one_scrolls(as_user: AsUser, cast: Cast) -> None:
    sweep, client = make_sweep(cast), as_user(cast.mate)
    Trial.objects.bulk_create(
        Trial(sweep=sweep, number=one, state="COMPLETE", value=one, parameters={}) for one in range(120)
    )
    first = client.get(f"/sweeps/{sweep.pk}/").content.decode()
    assert 'data-key="trial-70"' in first and 'data-key="trial-69"' not in first and 'data-rows="120"' in first
    second = client.get(f"/sweeps/{sweep.pk}/?fragment=rows&offset=50&limit=50").content.decode()
    assert 'data-key="trial-69" data-place="50"' in second and 'data-key="trial-70"' not in second
    seen = client.get(f"/sweeps/{sweep.pk}/?fragment=rows&ids=trial-3.trial-777.else").content.decode()
    assert seen.count("<tr") == 1 and 'data-key="trial-3"' in seen


def test_the_list_of_sweeps_is_sorted_by_its_address(as_user: AsUser, cast: Cast) -> None:
    for name in ("b", "a", "c"):
        make_sweep(cast, name=name)
    text = as_user(cast.mate).get("/sweeps/?sort=name").content.decode()
    assert re.findall(r'title="(\w)" data-open', text) == ["a", "b", "c"]


def test_the_charts_get_columns_with_the_best_and_what_pruning_saved(as_user: AsUser, cast: Cast) -> None:
    sweep = with_trials(cast)
    Telemetry.objects.create(run_id=sweep.trials.get(number=2).run_id, median_step_s=0.6)
    found = as_user(cast.mate).get(f"/sweeps/{sweep.pk}/data/").json()
    assert found["number"] == [0, 1, 2, 3] and found["state"][2] == "pruned"
    rate, optimizer = found["fields"]
    assert rate["label"] == "learning_rate" and rate["isLog"] and rate["values"] == [1e-3, 1e-2, 5e-2, 9e-2]
    assert optimizer["choices"] == ["adamw", "sgd"] and found["overTrials"]["steps"] == [[0.0, 0, 0.5]]
    # Its 100 steps took 0.6 s each: the 200 that it did not run would have taken two minutes.
    assert found["slots"]["saved"] == pytest.approx(120, rel=0.05) and found["slots"]["pruned"] == 1


def figures(client: Client, sweep: Sweep) -> dict[str, Any]:
    """The importance, once it is computed."""
    for _ in range(100):
        found: dict[str, Any] = client.get(f"/sweeps/{sweep.pk}/importance/").json()
        if found["isCurrent"]:
            return found
        time.sleep(0.1)
    raise AssertionError("it was never computed")


def test_importance_needs_trials_and_a_surface_two_fields(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    assert "at least 4 trials with a value" in figures(client, sweep)["sentence"]
    found = client.get(f"/sweeps/{sweep.pk}/surface/?x=train.learning_rate&y=train.optimizer").json()
    assert found["y"] == ["adamw", "sgd"] and found["num_used"] == 2
    assert client.get(f"/sweeps/{sweep.pk}/surface/?x=train.learning_rate&y=nothing").status_code == 422


def test_importance_is_computed_anew_where_a_stopped_trial_turns_out_complete(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    assert figures(client, sweep)["num_complete"] == 2
    sweep.trials.filter(state="PRUNED").update(state="COMPLETE", value=0.3)
    assert figures(client, sweep)["num_complete"] == 3


def test_a_viewer_is_offered_nothing_that_would_be_refused(as_user: AsUser, cast: Cast) -> None:
    text = as_user(cast.viewer).get(f"/sweeps/{with_trials(cast).pk}/").content.decode()
    assert "Stop" not in text.split("</header>")[2] and "Widen" not in text


def test_an_outsider_finds_nothing_of_it(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.outsider)
    assert b"find-rate" not in client.get("/sweeps/").content
    assert client.get(f"/launch/?from=sweep:{sweep.pk}").status_code == 404


def test_pausing_resuming_and_stopping_are_a_click_each(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    for verb, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPING")):
        assert client.post(f"/sweeps/{sweep.pk}/do/{verb}/").status_code == 302
        sweep.refresh_from_db()
        assert sweep.status == status
    assert client.post(f"/sweeps/{sweep.pk}/do/explode/").status_code == 404


def test_the_best_is_launched_with_three_seeds_and_compared(as_user: AsUser, cast: Cast) -> None:
    sweep = with_trials(cast)
    before = Run.objects.count()
    answer = as_user(cast.mate).post(f"/sweeps/{sweep.pk}/best/")
    runs = Run.objects.order_by("created_at")[before:]
    assert [run.spec["train"]["seed"] for run in runs] == [0, 1, 2]
    assert all(run.spec["train"]["learning_rate"] == 1e-3 for run in runs)
    assert answer["Location"] == "/runs/compare/?" + "&".join(f"run={run.pk}" for run in runs)


def test_a_trial_is_added_by_hand_and_what_is_wrong_stands_beside_its_field(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    assert 'value="0.001"' in client.get(f"/sweeps/{sweep.pk}/trials/").content.decode()  # the best one's
    typed = {"add": "1", "train.learning_rate": "much", "train.optimizer": "sgd"}
    wrong = client.post(f"/sweeps/{sweep.pk}/trials/", typed)
    assert wrong.status_code == 422 and "much" in wrong.content.decode() and Trial.objects.count() == 4
    done = client.post(f"/sweeps/{sweep.pk}/trials/", typed | {"train.learning_rate": "3e-3"})
    trial = Trial.objects.get(number=4)
    assert done["Location"] == f"/sweeps/{sweep.pk}/" and trial.by_hand
    assert trial.parameters == {"train.learning_rate": 3e-3, "train.optimizer": "sgd"}


def test_the_space_is_widened_and_never_narrowed(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    path = "train.learning_rate"
    typed = {
        "widen": "1", "trials": "30", "vary": [path], f"space:low:{path}": "1e-5", f"space:high:{path}": "1e-1",
        f"space:log:{path}": "on",
    }  # fmt: skip
    narrower = client.post(f"/sweeps/{sweep.pk}/space/", typed | {f"space:low:{path}": "1e-3"})
    assert narrower.status_code == 422 and "must include" in narrower.content.decode()
    assert client.post(f"/sweeps/{sweep.pk}/space/", typed).status_code == 302
    parsed = Sweep.objects.get().parsed
    assert parsed.space[path].bounds == (1e-5, 1e-1) and parsed.budget.trials == 30


def test_figures_are_computed_beside_the_requests_and_the_old_ones_stay_meanwhile(cast: Cast) -> None:
    key, may_end = with_trials(cast).pk, Event()
    two, three = (Importance(fields=[], num_used=num, sentence="") for num in (2, 3))
    first = figures_kept(key, {"COMPLETE": 2}, lambda: lambda: two)
    assert first == (None, False) or first == (two, True)
    while not figures_kept(key, {"COMPLETE": 2}, lambda: lambda: two).is_current:
        time.sleep(0.01)

    def compute() -> Importance:
        may_end.wait(10)
        return three

    assert figures_kept(key, {"COMPLETE": 3}, lambda: compute) == (two, False)
    may_end.set()
    while not (found := figures_kept(key, {"COMPLETE": 3}, lambda: compute)).is_current:
        time.sleep(0.01)
    assert found.found == three


def test_any_trial_is_launched_again_and_leads_to_its_run(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    before, run = Run.objects.count(), Run.objects.get(name="find-rate-1")
    assert client.get(f"/sweeps/{sweep.pk}/trials/1/")["Location"] == f"/runs/{run.pk}/"
    assert client.get(f"/sweeps/{sweep.pk}/trials/77/").status_code == 404
    answer = client.post(f"/sweeps/{sweep.pk}/trials/1/launch/")
    runs = Run.objects.order_by("created_at")[before:]
    assert [one.spec["train"]["learning_rate"] for one in runs] == [1e-2] * 3 and "/runs/compare/" in answer["Location"]


def test_the_line_of_a_population_is_replayed_as_one_run(as_user: AsUser, cast: Cast) -> None:
    space = {"train.learning_rate": SPACE["train.learning_rate"]}
    sweep = make_sweep(cast, document={"space": space, "sampler": {"name": "population", "size": 2, "interval": 100}})
    parent = make_trial(cast, sweep, 0, 0.9, 1e-3)
    best = make_trial(cast, sweep, 1, 0.5, 2e-3, parent=parent, parent_step=100)
    Trial.objects.update(parameters={"train.learning_rate": 1e-3})
    Trial.objects.filter(pk=best.pk).update(parameters={"train.learning_rate": 2e-3})
    Sweep.objects.update(best=best)
    client = as_user(cast.mate)
    text = client.get(f"/sweeps/{sweep.pk}/").content.decode()
    assert "Replay as one run" in text and text.count("trials/1/replay/") == 2 and "trials/0/replay/" not in text
    answer = client.post(f"/sweeps/{sweep.pk}/trials/1/replay/")
    run = Run.objects.get(name="find-rate-replay-1")
    assert answer["Location"] == f"/runs/{run.pk}/" and run.spec["train"]["learning_rate"] == 1e-3
    assert "Replay" not in as_user(cast.viewer).get(f"/sweeps/{sweep.pk}/").content.decode()


def test_an_ended_sweep_is_deleted_and_its_runs_stay(as_user: AsUser, cast: Cast) -> None:
    sweep, client = with_trials(cast), as_user(cast.mate)
    assert "Delete" not in client.get(f"/sweeps/{sweep.pk}/").content.decode()
    assert client.post(f"/sweeps/{sweep.pk}/delete/").status_code == 409
    Sweep.objects.update(status="SUCCEEDED")
    assert "Delete sweep find-rate?" in client.get(f"/sweeps/{sweep.pk}/").content.decode()
    assert client.post(f"/sweeps/{sweep.pk}/delete/")["Location"] == "/sweeps/"
    assert not Sweep.objects.exists() and Run.objects.count() == 4

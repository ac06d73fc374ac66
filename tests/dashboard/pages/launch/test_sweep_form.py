"""A sweep on the launch form: what varies, the preview, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from django.http import QueryDict
from django.test import Client

from dashboard.pages.launch.space_entries import entries_of, space_in, values_in
from dashboard.pages.launch.sweep_form import DEFAULTS, MEASURES, PRUNERS, SAMPLERS, typed_of
from runs.models import Sweep, User
from runs.sweeps.checking import preview
from tests.cast import Cast, make_node, spec
from trainyard.spec.sweeps import parse_sweep
from trainyard.spec.sweeps.models import Measure, PrunerName, SamplerName

AsUser = Callable[[User], Client]
RATE = "train.learning_rate"
VARIED = {
    "vary": [RATE, "train.optimizer"],
    f"space:low:{RATE}": "1e-4",
    f"space:high:{RATE}": "1e-1",
    f"space:log:{RATE}": "on",
    "space:values:train.optimizer": "adamw, sgd",
}


def sent(**changes: Any) -> QueryDict:
    query = QueryDict(mutable=True)
    for name, value in {**VARIED, **changes}.items():
        query.setlist(name, value if isinstance(value, list) else [value])
    return query


def test_rows_become_a_space_and_the_space_rows_again() -> None:
    space, rows = space_in(sent())
    assert space == {RATE: {"low": 1e-4, "high": 0.1, "log": True}, "train.optimizer": {"values": ["adamw", "sgd"]}}
    assert entries_of(space) == [row._replace(low="0.0001", high="0.1") if row.low else row for row in rows]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16, 32,64", [16, 32, 64]),
        ("adamw, sgd", ["adamw", "sgd"]),
        ("true, false", [True, False]),
        ("[64, 64], [128]", [[64, 64], [128]]),
        ('"1", "2"', ["1", "2"]),
        ("1e-3, auto", [1e-3, "auto"]),
    ],
)
def test_values_are_read_as_json_has_them_and_else_as_text(text: str, values: list[object]) -> None:
    assert values_in(text) == values
    assert space_in(sent(vary=["p"], **{"space:values:p": text}))[0] == {"p": {"values": values}}


def test_a_condition_is_carried_along_and_a_number_that_is_none_stays_text() -> None:
    space = {"a": {"low": 1, "high": 2, "int": True, "when": {"b": "x"}}}
    (entry,) = entries_of(space)
    assert entry.as_document() == space["a"]
    wrong, _ = space_in(sent(**{f"space:low:{RATE}": "lots"}))
    assert wrong[RATE]["low"] == "lots"


@pytest.mark.django_db
def test_the_form_starts_a_sweep_and_says_beforehand_what_it_costs(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    client = as_user(cast.mate)
    page = client.get("/launch/?sweep=1").content.decode()
    assert "Launch a sweep" in page and "data-vary-on" in page
    typed = {"task": "image-classifier", "name": "rates", "project": "default", "cluster": "local"}
    typed |= {"task.data.source": "digits", "resources.nodes": "1", "resources.processes_per_node": "1"}
    typed |= {"train.steps": "100", "train.batch_size": "32", "train.validate_every_steps": "50"}
    typed |= {**VARIED, "sweep:trials": "12", "sweep:parallel": "2"}
    aside = client.post("/launch/preview/", typed).content.decode()
    assert "12 trials" in aside and "trainyard sweep" in aside
    assert "Total cost, at most" in aside and "slot-hours" in aside
    assert "Counted with speeds that are assumed. The total is the sum over all trials" in aside
    answer = client.post("/launch/", typed | {"do": "sweep"})
    sweep = Sweep.objects.get()
    assert answer["Location"] == f"/sweeps/{sweep.pk}/" and sweep.parsed.budget.trials == 12
    assert sweep.parsed.space[RATE].log and sweep.parsed.pruner.name == "asha" and sweep.parsed.pruner.min == 50
    clone = client.get(f"/launch/?from=sweep:{sweep.pk}").content.decode()
    assert "adamw, sgd" in clone and 'value="12"' in clone


@pytest.mark.django_db
def test_what_is_wrong_with_it_stands_beside_its_field_and_nothing_typed_is_lost(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    typed = {"task": "language-model", "name": "rates", "project": "default", "cluster": "local", "do": "sweep"}
    typed |= {"train.steps": "100", "train.batch_size": "32", **VARIED, f"space:low:{RATE}": "2"}
    answer = as_user(cast.mate).post("/launch/", typed | {"sweep:trials": "0"})
    page = answer.content.decode()
    assert answer.status_code == 422 and not Sweep.objects.exists() and "budget.trials" in page
    rows = json.loads(page.split('data-entries="')[1].split('"')[0].replace("&quot;", '"'))
    assert rows[0]["path"] == RATE and rows[0]["low"] == "2" and rows[1]["values"] == "adamw, sgd"
    answer = as_user(cast.mate).post("/launch/", typed | {"sweep:trials": "5"})
    assert answer.status_code == 422 and "2 is more than high" in answer.content.decode()


def test_options_that_the_form_does_not_show_are_carried_along_while_the_method_is_the_same() -> None:
    document = parse_sweep({
        "name": "b", "base": {"name": "b"}, "space": {RATE: {"low": 1e-4, "high": 1e-1}}, "budget": {"trials": 9},
        "objective": {"metric": "val/loss"}, "pruner": {"name": "asha", "min": 50, "factor": 2}, "warm_start": True,
        "sampler": {"name": "tpe", "startup_trials": 6}, "seed": 3,
    }).as_document()  # fmt: skip
    typed = typed_of(document)
    again = parse_sweep(typed.document(document["base"])).as_document()
    assert again == document
    other = typed._replace(texts={**typed.texts, "sampler": "gp", "pruner": "median"}).document(document["base"])
    assert other["sampler"] == {"name": "gp"} and other["pruner"] == {"name": "median", "min": 50}
    texts = {**typed.texts, "sampler": "population", "size": "6"}
    found = parse_sweep(typed._replace(texts=texts).document(document["base"]))
    assert (found.sampler.size, found.budget.parallel, found.pruner.name) == (6, 6, "none")


@pytest.mark.django_db
def test_a_new_sweep_starts_from_the_shipped_one_and_the_plan_says_how_many_fit(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, slots=1)
    page = as_user(cast.mate).get("/launch/?sweep=1").content.decode()
    assert "example digits-search" in page and 'value="12"' in page and "task.model.width" in page
    assert "room for 1 at once, not for 2" in page
    make_node(cast.cluster, slots=1)
    page = as_user(cast.mate).get("/launch/?sweep=1").content.decode()
    assert "2 at once" in page and "at once, not for" not in page


@pytest.mark.django_db
def test_a_bad_number_of_the_sweep_has_its_words_beside_it(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    typed = {"task": "language-model", "name": "rates", "project": "default", "cluster": "local", "do": "sweep"}
    typed |= {"train.steps": "100", "train.batch_size": "32", **VARIED, "sweep:kept": "[" * 3000}
    page = as_user(cast.mate).post("/launch/", typed | {"sweep:parallel": "lots"}).content.decode()
    field = page.split('name="sweep:parallel"')[1].split("</div>")[0]
    assert 'aria-invalid="true"' in field and "lots" in field and '<a href="#sweep-parallel">At once</a>' in page


def test_the_form_offers_every_method() -> None:
    assert (tuple(SAMPLERS), tuple(PRUNERS)) == (get_args(SamplerName), get_args(PrunerName))
    assert tuple(MEASURES) == get_args(Measure)


def test_how_trials_are_compared_and_how_many_wait_have_fields() -> None:
    document = parse_sweep({
        "name": "b", "base": {"name": "b"}, "space": {RATE: {"low": 1e-4, "high": 1e-1}},
        "budget": {"trials": 9, "ahead": 0}, "objective": {"metric": "val/loss"},
        "pruner": {"name": "hyperband", "by": "tokens", "min": 4096, "max": 262144},
    }).as_document()  # fmt: skip
    typed = typed_of(document)
    assert (typed.texts["by"], typed.texts["min"], typed.texts["ahead"]) == ("tokens", "4096", "0")
    assert parse_sweep(typed.document(document["base"])).as_document() == document
    base = {"name": "b", "train": {"steps": 200, "validate_every_steps": 25}}
    fresh = typed._replace(texts={**DEFAULTS, "trials": "9", "ahead": "3"}).document(base)
    assert fresh["pruner"] == {"name": "asha", "min": 25} and fresh["budget"]["ahead"] == 3
    by_time = typed._replace(texts={**DEFAULTS, "by": "time", "min": "30"}).document(base)
    assert by_time["pruner"] == {"name": "asha", "by": "time", "min": 30} and "ahead" not in by_time["budget"]


@pytest.mark.django_db
def test_the_total_cost_is_the_sum_over_trials_at_the_pace_of_a_measured_run(cast: Cast) -> None:
    make_node(cast.cluster)
    train, resources = {"steps": 100, "batch_size": 32}, {"nodes": 1, "processes_per_node": 1}
    base = spec(task={"recipe": "language-model"}, train=train, resources=resources)
    document = {
        "name": "lengths", "base": base, "space": {"train.steps": {"values": [100, 300]}},
        "objective": {"metric": "val/loss"}, "budget": {"trials": 2, "parallel": 1}, "sampler": {"name": "grid"},
    }  # fmt: skip
    found, slow = preview(cast.mate, document), preview(cast.mate, document, pace=2.0)
    short = preview(cast.mate, {**document, "space": {"train.seed": {"values": [0, 1]}}})
    assert short["total_s"] and short["slot_hours"] and found["total_s"] and found["slot_hours"]
    assert found["total_s"] == pytest.approx(2 * short["total_s"]), "100 and 300 steps, beside twice 100"
    assert found["slot_hours"] == pytest.approx(2 * short["slot_hours"])
    assert slow["total_s"] == pytest.approx(2 * found["total_s"])
    assert slow["slot_hours"] == pytest.approx(2 * found["slot_hours"])

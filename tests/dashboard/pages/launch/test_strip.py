"""The strip above the launch form, and what the form says otherwise than its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.launch.sources import FormSource, examples, next_name
from dashboard.pages.launch.spec_form import TASKS, typed_of
from dashboard.pages.launch.strip import ENOUGH, NUM_USED, PLACE, USUAL, lifted_fields, said_of
from runs.models import Membership, Project, Role, Run, User
from tests.cast import Cast, make_sweep, spec
from trainyard.spec import fields_of, merge, parse_spec

AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
TYPED = typed_of(parse_spec(spec()).resolved())
SOURCE = FormSource("example:x", "example x", parse_spec(spec()).resolved())


def lines_of(source: FormSource = SOURCE, **changes: str) -> dict[str, str]:
    return said_of(source, {**TYPED, **changes}, ["train.seed"])


def launch_many(make_run: MakeRun, path: str, **changes: Any) -> None:
    for number in range(1, ENOUGH + 1):
        make_run(spec=parse_spec(merge(spec(), {path: number})).resolved(), **changes)


@pytest.mark.django_db
def test_who_launched_little_is_asked_the_usual_and_each_kind_its_own(cast: Cast) -> None:
    for task in TASKS:
        own, lifted = fields_of(task), lifted_fields(cast.mate, {**TYPED, "task": task})
        shown = [path for path in lifted if path in own and path not in PLACE]
        assert lifted[: len(PLACE)] == list(PLACE) and shown == [path for path in USUAL if path in own][:NUM_USED]
        assert {path for path in USUAL if path not in own} <= set(lifted), "which one may switch to"


@pytest.mark.django_db
def test_the_fields_that_changed_from_launch_to_launch_come_first(cast: Cast, make_run: MakeRun) -> None:
    launch_many(make_run, "train.weight_decay")
    lifted = lifted_fields(cast.mate, TYPED)
    assert lifted[len(PLACE)] == "train.weight_decay" and "train.optimizer" not in lifted
    assert len(set(lifted)) == len(lifted)


@pytest.mark.django_db
def test_a_clone_changed_what_differs_from_its_parent(cast: Cast, make_run: MakeRun) -> None:
    launch_many(make_run, "train.weight_decay")
    first = Run.objects.earliest("created_at")
    for _ in range(2 * ENOUGH):
        make_run(spec=merge(first.spec, {"train.warmup_steps": 7}), parent=first)
    assert lifted_fields(cast.mate, TYPED)[len(PLACE)] == "train.warmup_steps"


@pytest.mark.django_db
def test_of_whom_has_launched_little_the_project_is_asked_and_no_other_one(cast: Cast, make_run: MakeRun) -> None:
    launch_many(make_run, "train.weight_decay")
    assert lifted_fields(cast.owner, TYPED)[len(PLACE)] == "train.weight_decay"
    assert "train.weight_decay" not in lifted_fields(cast.outsider, TYPED)
    own = Project.objects.create(name="own")
    Membership.objects.create(project=own, user=cast.outsider, role=Role.MEMBER)
    assert "train.weight_decay" not in lifted_fields(cast.outsider, {**TYPED, "project": "own"})


@pytest.mark.django_db
def test_trials_of_a_sweep_are_nobodys_habit(cast: Cast, make_run: MakeRun) -> None:
    sweep = make_sweep(cast)
    launch_many(make_run, "train.weight_decay")
    for number, run in enumerate(Run.objects.filter(trial=None), start=10):
        sweep.trials.create(number=number, run=run)
    assert "train.weight_decay" not in lifted_fields(cast.mate, TYPED)


def test_a_form_like_its_source_says_so() -> None:
    assert lines_of(name="another", project="own")["difference"] == "Same as example x."
    assert lines_of(**{"train.learning_rate": "0.00100"})["difference"] == "Same as example x.", "an equal number"


def test_what_differs_is_said_in_one_line_and_marked_at_its_field() -> None:
    found = lines_of(**{"train.learning_rate": "0.003", "train.compile": "on"})
    assert found["difference"] == "Differs from example x: learning_rate 0.001 → 0.003 and compile off → on."
    assert (found["was:train.learning_rate"], found["was:train.compile"]) == ("was 0.001", "was off")
    assert "was:train.steps" not in found


def test_a_long_value_and_many_changes_are_cut_short() -> None:
    many = {path: "7" for path in fields_of("language-model") if path.startswith("train.")}
    assert lines_of(**many)["difference"].endswith(" more.")
    assert len(lines_of(tags="x" * 500)["was:tags"]) < 50 and len(lines_of(tags="x" * 500)["difference"]) < 120


@pytest.mark.parametrize("text", ["nan", "soon", "9" * 5_000, '"', "\0", "<b>"], ids=lambda text: text[:8])
def test_text_that_means_no_value_is_a_difference_like_any_other(text: str) -> None:
    typed = {path: text for path in TYPED if path not in ("task", "parallel.synchronization.kind")}
    assert lines_of(**typed)["difference"].startswith("Differs from")


def test_another_kind_of_task_has_no_marks() -> None:
    found = lines_of(task="tabular")
    assert found["difference"] == "Another kind of task than example x."
    assert not any(place.startswith("was:") for place in found)


def test_each_group_says_what_is_unusual_in_it() -> None:
    found = lines_of(**{"train.precision": "bf16", "train.compile": "on", "train.seed": "5"})
    assert "precision bf16 and compile on" in found["train"] and "seed" not in found["train"], "the strip has it"
    assert found["parallel"] == "as usual"
    for document in examples().values():
        assert set(said_of(SOURCE, typed_of(document), [])) >= {"what", "where", "parallel", "train", "safety"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("taken", "name", "proposed"),
    [
        (["gpt"], "gpt", "gpt-2"),
        (["gpt", "gpt-2", "gpt-4"], "gpt-4", "gpt-3"),
        (["resnet-50"], "resnet-50", "resnet-50-2"),
        (["-5"], "-5", "-5-2"),
        (["x" * 120], "x" * 120, f"{'x' * 110}-2"),
    ],
    ids=str,
)
def test_a_clone_is_proposed_the_next_free_name(
    taken: list[str], name: str, proposed: str, cast: Cast, make_run: MakeRun
) -> None:
    Project.objects.create(name="own").runs.create(cluster=cast.cluster, name=f"{name}-2", spec=spec())
    for one in taken:
        make_run(name=one)
    assert next_name(Run.objects.get(name=name)) == proposed


@pytest.mark.django_db
def test_a_clone_comes_with_a_new_name_and_the_line_that_says_how_it_differs(
    as_user: AsUser, cast: Cast, make_run: MakeRun
) -> None:
    run = make_run(spec=parse_spec(spec(name="gpt")).resolved())
    client = as_user(cast.mate)
    text = client.get("/launch/", {"from": f"run:{run.pk}"}).content.decode()
    assert 'value="gpt-2"' in text and "Same as run gpt." in text
    typed = {**typed_of(run.spec), "from": f"run:{run.pk}", "name": "gpt-2", "train.learning_rate": "0.5"}
    aside = client.post("/launch/preview/", typed).content.decode()
    assert 'data-said="difference">Differs from run gpt: learning_rate' in aside
    assert 'data-said="was:train.learning_rate">was ' in aside
    restart = client.get("/launch/", {"from": f"checkpoint:{run.pk}@5"}).content.decode()
    assert 'value="gpt-2"' in restart and f"checkpoint.restore none → {run.pk}@5" in restart


@pytest.mark.django_db
def test_a_refused_form_has_the_strip_that_it_was_sent_with(as_user: AsUser, cast: Cast) -> None:
    typed = {**TYPED, "lifted": "train.weight_decay nonsense <b>", "train.steps": "soon", "from": "run:deleted"}
    answer = as_user(cast.mate).post("/launch/", typed)
    text = answer.content.decode()
    assert answer.status_code == 422 and 'name="lifted" value="train.weight_decay"' in text
    assert "Differs from the defaults: " in text and 'value="soon"' in text
    train = text[: text.index("<h2>Train</h2>")].rindex("<details")
    assert text[train : text.index("<summary", train)].rstrip().endswith("open>"), "the group with the problem"

"""Going on from a checkpoint as a new run, and what is refused before any node is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import actions
from runs.actions import Refused
from runs.models import Cluster, Membership, Project, Role, Run
from runs.rights.access import NotFound
from tests.cast import Cast, make_run, make_user, spec
from tests.checkpoints import saved, tell
from trainyard.spec import SpecError, parse_spec

MODEL = {"layers": 2, "width": 32, "heads": 2, "context": 32}


@pytest.fixture
def origin(cast: Cast) -> Run:
    """A run with checkpoints of the steps 100 and 200."""
    document = parse_spec(spec(task={"recipe": "language-model", "model": MODEL})).resolved()
    run = make_run(cast, spec=document, status="FAILED", fence=1)
    tell(run, saved(100), saved(200))
    return run


def refusal(act: Callable[[], Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as error:
        act()
    return {problem.path: problem.message for problem in error.value.errors}


def test_a_run_goes_on_from_the_newest_checkpoint_of_another(cast: Cast, origin: Run) -> None:
    run = actions.continue_run(actor=cast.mate, run=origin, overrides={"train.steps": 500})
    assert run.parent == origin
    assert (run.spec["checkpoint"]["restore"], run.spec["train"]["steps"]) == (f"{origin.pk}@200", 500)


def test_a_step_may_be_chosen(cast: Cast, origin: Run) -> None:
    run = actions.continue_run(actor=cast.mate, run=origin, step=100)
    assert run.spec["checkpoint"]["restore"] == f"{origin.pk}@100"


def test_a_clone_with_the_field_set_is_the_same(cast: Cast, origin: Run) -> None:
    overrides = {"checkpoint.restore": f"{origin.pk}@100"}
    assert actions.clone_run(actor=cast.mate, run=origin, overrides=overrides).spec["checkpoint"]["restore"]


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(cast: Cast) -> None:
    with pytest.raises(Refused, match="has no checkpoint to go on from"):
        actions.continue_run(actor=cast.mate, run=make_run(cast))


@pytest.mark.parametrize("state", ["deleted", "invalid"])
def test_one_that_is_not_sound_is_refused_and_the_others_are_named(cast: Cast, origin: Run, state: str) -> None:
    tell(origin, {"state": state, "step": 200})
    found = refusal(lambda: actions.continue_run(actor=cast.mate, run=origin, step=200))
    assert found == {
        "checkpoint.restore": f"{origin.pk}@200: run hello-gpt has no checkpoint of step 200 to go on from; it has 100"
    }


def test_a_run_of_a_project_that_one_cannot_see_is_not_there(cast: Cast, origin: Run) -> None:
    outsider = make_user("stranger")
    other = Project.objects.create(name="other")
    cast.cluster.projects.add(other)
    Membership.objects.create(project=other, user=outsider, role=Role.MEMBER)
    with pytest.raises(NotFound):
        actions.continue_run(actor=outsider, run=origin)
    document = {**origin.spec, "project": "other", "checkpoint": {"restore": f"{origin.pk}@200"}}
    found = refusal(lambda: actions.submit_run(actor=outsider, document=document))
    assert found == {"checkpoint.restore": f"{origin.pk}@200: there is no run '{origin.pk}' that you can see"}
    assert not Run.objects.exclude(pk=origin.pk).exists()


def test_another_model_is_refused_with_both_numbers(cast: Cast, origin: Run) -> None:
    found = refusal(lambda: actions.continue_run(actor=cast.mate, run=origin, overrides={"task.model.width": 64}))
    assert list(found) == ["task.model.width"]
    assert found["task.model.width"].startswith(f"64 is not the 32 of run hello-gpt ({origin.pk})")


def test_another_cluster_is_refused_since_the_files_are_elsewhere(cast: Cast, origin: Run) -> None:
    Cluster.objects.create(name="far").projects.add(cast.project)
    found = refusal(lambda: actions.continue_run(actor=cast.mate, run=origin, overrides={"cluster": "far"}))
    assert found == {"checkpoint.restore": f"{origin.pk}@200: its files are on local, and cluster far is asked for"}


def test_a_checkpoint_behind_which_no_step_is_left_is_refused(cast: Cast, origin: Run) -> None:
    found = refusal(lambda: actions.continue_run(actor=cast.mate, run=origin, overrides={"train.steps": 200}))
    assert "leaves nothing to train" in found["checkpoint.restore"]


def test_a_script_has_no_such_field_and_its_run_no_model(cast: Cast, origin: Run) -> None:
    script = make_run(cast, spec=spec(task={"script": "train.py", "code": {"sha256": "0" * 64}}), fence=1)
    tell(script, saved(10))
    document = {**origin.spec, "checkpoint": {"restore": f"{script.pk}@10"}}
    found = refusal(lambda: actions.submit_run(actor=cast.mate, document=document))
    assert found["task.recipe"].startswith("language-model is not the script of run hello-gpt")

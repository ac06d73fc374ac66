"""What the launch page says before a launch is what a launch would be refused for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from dashboard.pages.launch.spec_form import typed_of
from runs.models import CodeBundle, Membership, Project, Role, Run, User
from runs.values.status import Status
from tests.cast import Cast, make_node, spec
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def form(**changes: str) -> dict[str, str]:
    return {**typed_of(parse_spec(spec()).resolved()), "task": "language-model", "from": "example:hello-gpt", **changes}


def forecast(text: str) -> str:
    """What stands under "When"."""
    return text[text.index('class="forecast') :].split("</div>")[0]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"checkpoint.restore": "nothing@5"}, "checkpoint.restore", "there is no run"),
        ({"resources.nodes": "5", "train.batch_size": "30"}, "resources.nodes", "5 is more than this cluster has"),
        ({"task": "script", "task.script": "a.py", "task.code": "f" * 64}, "task.code", "there is no bundle"),
        ({"task": "script", "task.script": "a.py", "task.code": "."}, "task.code", "upload it as a bundle"),
        ({"cluster": "nowhere"}, "cluster", "there is no cluster"),
        ({"project": "nowhere"}, "project", "There is no project"),
        ({"task.data.dataset": "nothing"}, "task.data.dataset", "there is no dataset"),
        ({"train.steps": "soon"}, "train.steps", "must be a whole number"),
    ],
)
def test_the_preview_says_what_a_launch_is_refused_for(
    as_user: AsUser, cast: Cast, changes: dict[str, str], path: str, words: str
) -> None:
    make_node(cast.cluster)
    client = as_user(cast.mate)
    answer = client.post("/launch/", form(**changes))
    assert answer.status_code == 422 and not Run.objects.exists()
    for text in (answer.content.decode(), client.post("/launch/preview/", form(**changes)).content.decode()):
        problem = text[text.index(f'data-problem="{path}"') :].split("</i>")[0]
        assert words in problem
        assert "would start at once" not in text and "is-red" in forecast(text)


def test_the_preview_says_that_the_run_has_no_such_checkpoint(
    as_user: AsUser, cast: Cast, make_run: Callable[..., Run]
) -> None:
    make_node(cast.cluster)
    run = make_run(status=Status.SUCCEEDED)
    typed = form(**{"checkpoint.restore": f"{run.pk}@5"})
    text = as_user(cast.mate).post("/launch/preview/", typed).content.decode()
    assert "has no checkpoint to go on from" in forecast(text)


def test_a_script_that_is_not_in_the_code_is_named_before_the_launch(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    CodeBundle.objects.create(project=cast.project, sha256="a" * 64, files=["train.py"], size_bytes=1)
    typed = form(**{"task": "script", "task.script": "tarin.py", "task.code": "a" * 64})
    text = as_user(cast.mate).post("/launch/preview/", typed).content.decode()
    assert 'data-problem="task.script"' in text and "would start at once" not in text


def test_the_code_that_comes_with_an_example_is_no_problem_of_the_preview(as_user: AsUser, cast: Cast) -> None:
    for _ in range(2):
        make_node(cast.cluster)
    text = as_user(cast.mate).get("/launch/", {"from": "example:own-script"}).content.decode()
    assert "It would start at once" in text and not CodeBundle.objects.exists()


def test_a_project_in_which_one_only_looks_is_named_before_the_launch(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    Membership.objects.create(project=Project.objects.create(name="own"), user=cast.viewer, role=Role.MEMBER)
    text = as_user(cast.viewer).post("/launch/preview/", form()).content.decode()
    assert 'data-problem="project"' in text and "You need to be member of project default" in forecast(text)


@pytest.mark.parametrize("batch", ["32", "30"], ids=["that does not divide", "that divides"])
def test_more_nodes_than_there_are_come_before_a_batch_that_does_not_divide(
    as_user: AsUser, cast: Cast, batch: str
) -> None:
    for _ in range(2):
        make_node(cast.cluster)
    typed = form(**{"resources.nodes": "5", "train.batch_size": batch})
    client = as_user(cast.mate)
    for path in ("/launch/preview/", "/launch/"):
        words = forecast(client.post(path, typed).content.decode())
        assert "It can never start on local: 5 is more than this cluster has: 2 nodes" in words
        assert words.count("5 is more than") == 1 and ("32 does not divide" in words) == (batch == "32")
        assert words.index("5 is more than") < words.find("does not divide") % len(words)


HUGE = {"task.model.width": "8192", "task.model.layers": "24"}


@pytest.mark.parametrize("is_draining", [False, True])
def test_what_does_not_fit_into_memory_is_red_and_launched_by_who_confirms_it(
    as_user: AsUser, cast: Cast, is_draining: bool
) -> None:
    make_node(cast.cluster, inventory={"memory_bytes": 8 * 2**30, "cpu": {"count": 2}}, is_draining=is_draining)
    client = as_user(cast.mate)
    text = client.post("/launch/preview/", form(**HUGE)).content.decode()
    assert "is-red" in forecast(text)
    assert "It does not fit into memory: the one rank would need" in forecast(text)
    assert ("Waiting for" if is_draining else "It would start at once") in forecast(text)
    answer = client.post("/launch/", form(do="launch", **HUGE))
    page = answer.content.decode()
    assert answer.status_code == 422 and not Run.objects.exists()
    assert "This was not launched." in page and 'value="launch-anyway"' in page and 'value="8192"' in page
    assert 'class="btn btn-danger is-final" name="do" value="launch"' in page
    assert client.post("/launch/", form(do="launch-anyway", **HUGE)).status_code == 302
    assert Run.objects.get().spec["task"]["model"]["width"] == 8192


def test_memory_that_nobody_knows_is_no_reason_to_ask(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, inventory={})
    assert as_user(cast.mate).post("/launch/", form(do="launch", **HUGE)).status_code == 302


def test_what_does_not_fit_can_be_saved_as_a_job(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, inventory={"memory_bytes": 8 * 2**30, "cpu": {"count": 2}})
    assert as_user(cast.mate).post("/launch/", form(do="save", **HUGE)).status_code == 302

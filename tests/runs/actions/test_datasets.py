"""What one may ask of a dataset, what a spec that names one becomes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from runs import actions
from runs.actions import Refused
from runs.models import Cluster, Dataset, Project, Run
from runs.rights.access import Forbidden, NotFound
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run, spec
from tests.datasets import TABLE, asked, make_dataset, ready
from trainyard.spec import SpecError

State = Dataset.State
pytestmark = pytest.mark.usefixtures("valkey")


def tabular(**data: Any) -> dict[str, Any]:
    return spec(task={"recipe": "tabular", "data": {"dataset": "trees", **data}})


def refusal(cast: Cast, document: dict[str, Any]) -> tuple[list[str], str]:
    with pytest.raises(SpecError) as error:
        actions.submit_run(actor=cast.mate, document=document)
    assert not Run.objects.exists()
    return [problem.path for problem in error.value.errors], str(error.value)


def test_a_dataset_waits_for_a_node_to_look(cast: Cast) -> None:
    dataset = make_dataset(cast)
    assert (dataset.state, dataset.created_by, dataset.digest) == (State.WAITING, cast.mate, "")
    assert dataset.options == {"target": "height"}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"name": "my data"}, "name", "slug"),
        ({"source": "xlsx"}, "source", "must be one of text, jsonl"),
        ({"location": ""}, "location", "is needed"),
        ({"location": "rows.csv"}, "location", "absolute path"),
        ({"location": "/data/../etc/passwd"}, "location", "upwards"),
        ({"location": "s3://me:secret@bucket/rows.csv"}, "location", "password"),
        ({"location": "https://token@host/rows.csv"}, "location", "password"),
        ({"location": "zip://rows.csv::https://me:secret@host/all.zip"}, "location", "password"),
        ({"location": "http://[/x"}, "location", "no URL"),
        ({"options": {"image_size": 8}}, "image_size", "it has target"),
        ({"source": "text", "options": {"target": "x"}}, "target", "it has none"),
        ({"source": "images", "options": {"image_size": 2}}, "image_size", "at least 4"),
        ({"source": "images", "options": {"image_size": "big"}}, "image_size", "whole number"),
    ],
)
def test_bad_data_is_refused_by_the_name_of_its_field(
    cast: Cast, changes: dict[str, Any], field: str, words: str
) -> None:
    about: dict[str, Any] = {"name": "trees", "source": "csv", "location": "/data/trees.csv", **changes}
    with pytest.raises(ValidationError) as error:
        actions.create_dataset(actor=cast.mate, project=cast.project, cluster=cast.cluster, **about)
    assert list(error.value.message_dict) == [field]
    assert words in error.value.message_dict[field][0]
    assert not Dataset.objects.exists()


def test_a_name_is_taken_once_in_a_project(cast: Cast) -> None:
    make_dataset(cast)
    with pytest.raises(Refused, match="already a dataset named trees"):
        make_dataset(cast)


def test_a_viewer_and_an_outsider_change_nothing(cast: Cast) -> None:
    dataset = ready(cast)
    about = {"name": "mine", "source": "text", "location": "/data"}
    for person, error in ((cast.viewer, Forbidden), (cast.outsider, NotFound)):
        with pytest.raises(error):
            actions.create_dataset(actor=person, project=cast.project, cluster=cast.cluster, **about)
        with pytest.raises(error):
            actions.check_dataset(actor=person, dataset=dataset)
        with pytest.raises(error):
            actions.delete_dataset(actor=person, dataset=dataset)
    assert Dataset.objects.get().state == State.READY


def test_checking_again_keeps_what_is_known_until_a_node_has_looked(cast: Cast) -> None:
    dataset = actions.check_dataset(actor=cast.mate, dataset=ready(cast))
    assert (dataset.state, dataset.asked_at, dataset.facts) == (State.WAITING, None, TABLE)


def test_checking_while_a_node_looks_changes_nothing(cast: Cast) -> None:
    dataset = asked(make_dataset(cast), make_node(cast.cluster))
    assert actions.check_dataset(actor=cast.mate, dataset=dataset).state == State.CHECKING


def test_a_dataset_goes_unless_a_live_run_uses_it(cast: Cast) -> None:
    dataset = ready(cast)
    run = actions.submit_run(actor=cast.mate, document=tabular())
    with pytest.raises(Refused, match="hello-gpt is QUEUED"):
        actions.delete_dataset(actor=cast.mate, dataset=dataset)
    actions.stop_run(actor=cast.mate, run=run)
    actions.delete_dataset(actor=cast.mate, dataset=dataset)
    assert not Dataset.objects.exists()


def test_another_projects_run_of_the_same_name_is_no_reason(cast: Cast) -> None:
    other = Project.objects.create(name="other")
    document = spec(task={"recipe": "tabular", "data": {"dataset": "trees"}})
    make_run(cast, project=other, spec=document, status=Status.RUNNING)
    actions.delete_dataset(actor=cast.mate, dataset=ready(cast))
    assert not Dataset.objects.exists()


def test_a_cluster_with_datasets_stays(cast: Cast) -> None:
    make_dataset(cast)
    with pytest.raises(Refused, match="have datasets"):
        actions.delete_cluster(actor=cast.owner, cluster=cast.cluster)


# What nodes answer


def test_facts_make_it_ready(cast: Cast) -> None:
    node = make_node(cast.cluster)
    dataset = asked(make_dataset(cast), node)
    answer = {"node": node, "dataset_id": dataset.pk, "question": dataset.question}
    assert actions.answer_dataset(**answer, facts=TABLE, problem="")
    dataset.refresh_from_db()
    assert (dataset.state, dataset.digest, dataset.size_bytes) == (State.READY, "ab" * 32, 2_048)
    assert dataset.facts == TABLE and dataset.checked_at is not None
    assert not actions.answer_dataset(**answer, facts=None, problem="Too late.")


def test_a_problem_makes_it_failed_and_forgets_what_was_known(cast: Cast) -> None:
    node = make_node(cast.cluster)
    dataset = asked(ready(cast), node)
    assert actions.answer_dataset(
        node=node,
        dataset_id=dataset.pk,
        question=dataset.question,
        facts=None,
        problem="task.data.location is not there",
    )
    dataset.refresh_from_db()
    assert (dataset.state, dataset.problem, dataset.facts, dataset.digest) == (
        State.FAILED,
        "Location is not there.",
        {},
        "",
    )


def test_an_answer_of_another_node_or_to_an_older_question_changes_nothing(cast: Cast) -> None:
    first, second = make_node(cast.cluster), make_node(cast.cluster)
    dataset = asked(make_dataset(cast), first)
    old = dataset.question
    asked(dataset, second)
    for node, question in ((first, old), (first, dataset.question), (second, old), (second, "")):
        assert not actions.answer_dataset(
            node=node, dataset_id=dataset.pk, question=question, facts=None, problem="Stale."
        )
    dataset.refresh_from_db()
    assert dataset.state == State.CHECKING


# What a spec that names one becomes


def test_a_spec_gets_source_location_digest_and_options_and_keeps_the_name(cast: Cast) -> None:
    ready(cast)
    run = actions.submit_run(actor=cast.mate, document=tabular())
    data = run.spec["task"]["data"]
    assert data["dataset"] == "trees" and data["source"] == "csv" and data["location"] == "/data/trees.csv"
    assert (data["digest"], data["target"]) == ("ab" * 32, "height")


def test_a_dataset_that_is_still_checked_is_accepted_without_a_digest(cast: Cast) -> None:
    make_dataset(cast)
    assert actions.submit_run(actor=cast.mate, document=tabular()).spec["task"]["data"]["digest"] == ""


def test_a_clone_takes_the_dataset_as_it_is_now(cast: Cast) -> None:
    dataset = ready(cast)
    run = actions.submit_run(actor=cast.mate, document=tabular())
    Dataset.objects.filter(pk=dataset.pk).update(location="/data/newer.csv", digest="cd" * 32)
    data = actions.clone_run(actor=cast.mate, run=run).spec["task"]["data"]
    assert (data["location"], data["digest"]) == ("/data/newer.csv", "cd" * 32)
    assert run.spec["task"]["data"]["digest"] == "ab" * 32


def test_what_a_run_says_of_it_may_be_submitted_as_it_is(cast: Cast) -> None:
    ready(cast)
    run = actions.submit_run(actor=cast.mate, document=tabular())
    assert actions.submit_run(actor=cast.mate, document=run.spec).spec == run.spec


def test_another_target_of_the_same_table_may_be_chosen(cast: Cast) -> None:
    ready(cast)
    run = actions.submit_run(actor=cast.mate, document=tabular(source="csv", target="<b>kind</b>"))
    assert run.spec["task"]["data"]["target"] == "<b>kind</b>"


def test_a_target_that_is_no_column_is_refused_with_those_that_are(cast: Cast) -> None:
    ready(cast)
    paths, words = refusal(cast, tabular(source="csv", target="colour"))
    assert paths == ["task.data.target"] and "no column 'colour'; it has height and <b>kind</b>" in words


def test_an_unknown_name_is_refused(cast: Cast) -> None:
    assert refusal(cast, tabular()) == (
        ["task.data.dataset"],
        "task.data.dataset: there is no dataset 'trees' in project default",
    )


def test_the_dataset_of_another_recipe_is_refused(cast: Cast) -> None:
    ready(cast)
    document = spec(task={"recipe": "language-model", "data": {"dataset": "trees"}})
    paths, words = refusal(cast, document)
    assert (
        paths == ["task.data.dataset"] and "is csv (table), which language-model does not read; tabular does" in words
    )


def test_arrays_are_for_the_recipe_that_reads_what_a_node_found_in_them(cast: Cast) -> None:
    made = make_dataset(cast, source="npz", options={})
    run = actions.submit_run(actor=cast.mate, document=tabular())
    assert run.spec["task"]["data"]["source"] == "npz", "as long as nobody has looked"
    run.delete()
    Dataset.objects.filter(pk=made.pk).update(state=State.READY, facts={"kind": "images"})
    paths, words = refusal(cast, tabular())
    assert paths == ["task.data.dataset"] and "npz (images), which tabular does not read; image-classifier" in words


def test_a_failed_dataset_is_refused_with_its_problem(cast: Cast) -> None:
    make_dataset(cast, state=State.FAILED, problem="There is no file /data/trees.csv.")
    paths, words = refusal(cast, tabular())
    assert paths == ["task.data.dataset"] and "There is no file /data/trees.csv. Then have it checked again" in words


def test_a_dataset_of_another_cluster_is_refused(cast: Cast) -> None:
    ready(cast)
    Cluster.objects.create(name="lab").projects.add(cast.project)
    paths, words = refusal(cast, {**tabular(), "cluster": "lab"})
    assert paths == ["task.data.dataset"] and "cluster local; this runs on lab" in words


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ({"source": "parquet"}, "task.data.source"),
        ({"source": "csv", "location": "/data/others.csv"}, "task.data.location"),
        ({"source": "csv", "digest": "cd" * 32}, "task.data.digest"),
    ],
)
def test_what_is_typed_beside_the_name_and_says_otherwise_is_refused(
    cast: Cast, typed: dict[str, Any], path: str
) -> None:
    ready(cast)
    paths, words = refusal(cast, tabular(**typed))
    assert paths == [path] and "leave it out" in words

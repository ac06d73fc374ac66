"""The launch page."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.pages.launch import sources as launch_sources
from dashboard.pages.launch.sources import examples
from dashboard.pages.launch.spec_form import typed_of
from runs.models import Cluster, CodeBundle, Dataset, Job, Membership, Project, Role, Run, User
from tests.cast import Cast, make_node, spec
from trainyard import bundle
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def form(**changes: str) -> dict[str, str]:
    """What a browser sends for a small spec."""
    return {**typed_of(parse_spec(spec()).resolved()), "task": "language-model", "from": "example:hello-gpt", **changes}


SCRIPT = {"task": "script", "task.script": "train.py", "task.arguments": "--lr 0.1"}


def test_launching_makes_the_run_that_the_form_says(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    answer = as_user(cast.mate).post("/launch/", form(name="mine", tags="a, b", **{"train.steps": "70"}))
    run = Run.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"/runs/{run.pk}/"
    assert (run.name, run.tags, run.spec["train"]["steps"], run.created_by) == ("mine", ["a", "b"], 70, cast.mate)


@pytest.mark.parametrize("source", ["", *(f"example:{name}" for name in examples())])
def test_the_form_comes_filled_from_each_example(as_user: AsUser, cast: Cast, source: str) -> None:
    answer = as_user(cast.mate).get("/launch/", {"from": source})
    assert answer.status_code == 200
    assert f'value="{source.removeprefix("example:") or "hello-gpt"}"' in answer.content.decode()


def test_the_form_comes_filled_from_a_job_and_from_a_run(
    as_user: AsUser, cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run(spec=parse_spec(spec(name="from-a-run")).resolved())
    job = Job.objects.create(project=cast.project, name="j", spec=parse_spec(spec(name="from-a-job")).resolved())
    client = as_user(cast.mate)
    assert b'value="from-a-run-2"' in client.get("/launch/", {"from": f"run:{run.pk}"}).content
    assert b'value="from-a-job"' in client.get("/launch/", {"from": f"job:{job.pk}"}).content
    client.post("/launch/", form(**{"from": f"job:{job.pk}"}))
    client.post("/launch/", form(**{"from": f"run:{run.pk}"}))
    assert [(one.job, one.parent) for one in Run.objects.order_by("created_at")[1:]] == [(job, None), (None, run)]


LINES = {
    "changes": "100: learning_rate=0.002 batch_size=64\n250: gradient_clip=0.5",
    "log_rules": "slow-disk notify: nfs: .* gone\noops: NaN",
    "watch": "train/loss nan=true spike=6 over=50 action=stop",
}


@pytest.mark.parametrize("path", LINES)
def test_lines_of_a_run_come_back_as_they_were_typed(as_user: AsUser, cast: Cast, path: str) -> None:
    client = as_user(cast.mate)
    assert client.post("/launch/", form(**{path: LINES[path]})).status_code == 302
    content = client.get(f"/launch/?from=run:{Run.objects.get().pk}").content.decode()
    assert LINES[path] in content


def test_an_error_stands_beside_its_field_and_nothing_typed_is_lost(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/launch/", form(name="<b>", **{"train.steps": "soon"}))
    text = answer.content.decode()
    assert answer.status_code == 422 and not Run.objects.exists()
    field = text[text.index('data-path="train.steps"') :]
    field = field[: field.index("</div>")]
    assert 'value="soon"' in field and 'aria-invalid="true"' in field and "must be a whole number" in field
    assert 'value="&lt;b&gt;"' in text


def test_a_world_that_the_cluster_can_never_hold_is_refused_at_its_field(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    text = (
        as_user(cast.mate).post("/launch/", form(**{"resources.nodes": "9", "train.batch_size": "36"})).content.decode()
    )
    field = text[text.index('data-path="resources.nodes"') :]
    assert "9 is more than this cluster has" in field[: field.index("</div>")]


def test_a_viewer_sees_the_page_and_launches_nothing(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.viewer)
    assert b"needs the role of a member" in client.get("/launch/").content
    answer = client.post("/launch/", form())
    assert answer.status_code == 422 and b"need to be member of project default" in answer.content
    assert not Run.objects.exists()


def test_what_is_not_there_or_not_mine_cannot_be_started_from(
    as_user: AsUser, cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run()
    for source in ("example:../../etc/passwd", "job:nothing", "nonsense", f"run:{run.pk}"):
        assert as_user(cast.outsider).get("/launch/", {"from": source}).status_code == 404


def test_saving_makes_a_job_and_the_next_version_of_it(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    for _ in range(2):
        answer = client.post("/launch/", form(do="save", name="nightly"))
    job = Job.objects.get(version=2)
    assert answer["Location"] == f"/jobs/{job.pk}/" and job.name == "nightly" and not Run.objects.exists()


def test_the_preview_says_when_and_writes_nothing(as_user: AsUser, cast: Cast) -> None:
    node = make_node(cast.cluster, "node-a")
    client = as_user(cast.viewer)
    assert b"It would start at once, on node-a." in client.post("/launch/preview/", form()).content
    node.is_draining = True
    node.save()
    waits = client.post("/launch/preview/", form()).content.decode()
    assert "Waiting for" in waits and "node-a is draining" in waits
    never = client.post("/launch/preview/", form(**{"resources.nodes": "2"})).content.decode()
    assert "can never start" in never and 'data-problem="resources.nodes"' in never
    assert b"1 thing is wrong" in client.post("/launch/preview/", form(**{"train.steps": "x"})).content
    assert not Run.objects.exists() and not CodeBundle.objects.exists()


def test_the_drawing_is_coloured_by_the_axis_that_one_chose(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    split = {"resources.nodes": "2", "resources.processes_per_node": "2", "parallel.tensor": "2"}
    text = client.post("/launch/preview/", form(**split)).content.decode()
    assert ">rank 3 on node 2: copy 1, slice 1<" in text
    assert 'value="data" checked' in text and ">d1</i>" in text and ">t1</i>" not in text
    assert 'value="pipeline"' not in text, "only axes above 1 are offered"
    text = client.post("/launch/preview/", form(**split, **{"coloured-by": "tensor"})).content.decode()
    assert 'value="tensor" checked' in text and ">t1</i>" in text and ">d1</i>" not in text


def test_a_field_of_another_choice_is_hidden_and_what_was_typed_is_kept(as_user: AsUser, cast: Cast) -> None:
    typed = form(**{"parallel.synchronization.outer_momentum": "0.123", "train.steps": "soon"})
    text = as_user(cast.mate).post("/launch/", typed).content.decode()
    field = text[text.index('data-path="parallel.synchronization.outer_momentum"') :]
    assert "hidden>" in field[: field.index("<label")] and 'value="0.123"' in field[: field.index("</div>")]
    diloco = {**typed, "train.steps": "70", "parallel.synchronization.kind": "diloco", "resources.nodes": "2"}
    as_user(cast.mate).post("/launch/", diloco)
    assert Run.objects.get().spec["parallel"]["synchronization"]["outer_momentum"] == 0.123


def test_a_huge_world_is_counted_and_not_drawn(as_user: AsUser, cast: Cast) -> None:
    changes = {"resources.nodes": "1000", "resources.processes_per_node": "1024", "train.batch_size": str(1024 * 1000)}
    text = as_user(cast.mate).post("/launch/preview/", form(**changes)).content.decode()
    assert "976 more nodes" in text and "1,024,000 ranks" in text and len(text) < 400_000


def test_a_folder_is_packed_on_the_server_and_launched(as_user: AsUser, cast: Cast) -> None:
    files = [
        SimpleUploadedFile("train.py", b"print(1)"),
        SimpleUploadedFile("util.py", b""),
        SimpleUploadedFile("x", b""),
    ]
    paths = ["code/train.py", "code/lib/util.py", "code/.git/x"]
    data: dict[str, Any] = {**form(**SCRIPT), "files": files, "paths": paths}
    assert as_user(cast.mate).post("/launch/", data).status_code == 302
    stored = CodeBundle.objects.get()
    assert stored.files == ["lib/util.py", "train.py"]
    assert Run.objects.get().spec["task"]["code"] == {"sha256": stored.sha256}


def test_the_example_with_code_of_its_own_can_be_launched(as_user: AsUser, cast: Cast) -> None:
    for _ in range(2):
        make_node(cast.cluster)
    answer = as_user(cast.mate).post("/launch/", form(**SCRIPT, **{"task.code": "example:own-script"}))
    assert answer.status_code == 302 and Run.objects.get().spec["task"]["code"]["sha256"]


def test_an_upload_answers_its_digest_and_a_bad_one_is_refused(as_user: AsUser, cast: Cast, tmp_path: Any) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    data, sha256, _ = bundle.pack(tmp_path)
    client = as_user(cast.mate)

    def send(archive: bytes, project: str = "default") -> Any:
        return client.post("/launch/code/", {"project": project, "archive": io.BytesIO(archive)})

    assert send(data).json()["sha256"] == sha256
    assert send(b"PK not a tar").status_code == 422
    assert send(data, project="other").status_code == 404
    escaping = {"project": "default", "files": SimpleUploadedFile("x.py", b""), "paths": "../../x.py"}
    assert client.post("/launch/code/", escaping).status_code == 422
    assert CodeBundle.objects.count() == 1


@pytest.mark.parametrize(
    "paths",
    [
        ["code/" + "x" * 300 + ".py"],
        ["code/" + "ö" * 130 + "/a.py"],
        ["code/" + "/".join("abc" for _ in range(300)) + "/a.py"],
        ["code/a", "code/a/b.py"],
        ["code/a/b.py", "code/a"],
        ["code/line\nbreak.py"],
        [""],
    ],
    ids=lambda paths: paths[0][:20],
)
def test_a_path_that_no_file_system_takes_is_refused_in_words(as_user: AsUser, cast: Cast, paths: list[str]) -> None:
    files = [SimpleUploadedFile(f"{number}.py", b"") for number in range(len(paths))]
    data = {"project": "default", "files": files, "paths": paths}
    answer = as_user(cast.mate).post("/launch/code/", data, headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 422 and "cannot be used as code" in answer.json()["sentence"]


def test_what_is_left_out_of_code_may_have_any_name(as_user: AsUser, cast: Cast) -> None:
    files = [SimpleUploadedFile(f"{number}.py", b"") for number in range(2)]
    data = {"project": "default", "files": files, "paths": ["code/.git/" + "x" * 300, "code/train.py"]}
    assert as_user(cast.mate).post("/launch/code/", data).json()["files"] == ["train.py"]


def test_a_script_without_code_is_told_so_beside_the_code(as_user: AsUser, cast: Cast) -> None:
    text = as_user(cast.mate).post("/launch/", form(**{**SCRIPT, "task.code": "."})).content.decode()
    field = text[text.index('data-path="task.code"') :]
    assert "upload it as a bundle" in field[: field.index("data-uploads")]


def test_a_folder_of_many_files_comes_whole(as_user: AsUser, cast: Cast) -> None:
    files = [SimpleUploadedFile(f"{number}.py", b"") for number in range(1500)]
    data = {"project": "default", "files": files, "paths": [f"code/{number}.py" for number in range(1500)]}
    assert as_user(cast.mate).post("/launch/code/", data).status_code == 200
    assert len(CodeBundle.objects.get().files) == 1500


def test_a_dataset_of_a_project_that_one_does_not_see_tells_nothing_of_itself(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster)
    Membership.objects.create(project=Project.objects.create(name="own"), user=cast.outsider, role=Role.MEMBER)
    typed = form(task="tabular", **{"task.data.source": "csv", "task.data.dataset": "secret"})
    preview = as_user(cast.outsider).post
    before = preview("/launch/preview/", typed).content.decode()
    facts = {"kind": "table", "num_rows": 90, "num_features": 7_777, "num_classes": 3}
    Dataset.objects.create(
        project=cast.project, cluster=cast.cluster, name="secret", source="csv", location="/a.csv", facts=facts,
        state=Dataset.State.READY,
    )  # fmt: skip
    assert preview("/launch/preview/", typed).content.decode() == before
    assert "There is no project" in before and "cost-title" not in before


def test_a_name_that_datasets_of_two_projects_have_is_offered_to_the_readers_of_both(
    as_user: AsUser, cast: Cast
) -> None:
    other = Project.objects.create(name="other")
    Membership.objects.create(project=other, user=cast.mate, role=Role.MEMBER)
    for project, source in ((cast.project, "csv"), (other, "text")):
        Dataset.objects.create(project=project, cluster=cast.cluster, name="rows", source=source, location="/a")
    text = as_user(cast.mate).get("/launch/").content.decode()
    assert 'value="rows" data-tasks="language-model tabular"' in text


def test_tags_that_one_takes_away_from_a_job_are_gone(as_user: AsUser, cast: Cast) -> None:
    job = Job.objects.create(project=cast.project, name="j", spec=parse_spec(spec(tags=["old"])).resolved())
    as_user(cast.mate).post("/launch/", form(**{"from": f"job:{job.pk}", "tags": ""}))
    run = Run.objects.get()
    assert (run.job, run.tags) == (job, [])


@pytest.mark.parametrize("path", ["train.steps", "task.model.kv_heads"])
def test_a_number_of_thousands_of_digits_is_refused_beside_its_field(as_user: AsUser, cast: Cast, path: str) -> None:
    answer = as_user(cast.mate).post("/launch/", form(**{path: "9" * 5_000}))
    assert answer.status_code == 422 and f'data-problem="{path}"' in answer.content.decode()


def test_an_example_that_cannot_be_read_is_left_out_and_the_page_goes_on(
    as_user: AsUser, cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hello-gpt.yaml").write_text("name: hello-gpt\ntask: {recipe: language-model}\n")
    (tmp_path / "half.yaml").write_text("name: half\ntask: {recipe: langu")
    monkeypatch.setattr(launch_sources, "FOLDER", tmp_path)
    launch_sources.shipped.cache_clear()
    try:
        text = as_user(cast.mate).get("/launch/").content.decode()
    finally:
        launch_sources.shipped.cache_clear()
    assert 'value="hello-gpt"' in text and "half.yaml" in caplog.text


def test_an_example_is_for_a_project_and_a_cluster_that_one_has(as_user: AsUser, cast: Cast) -> None:
    own = Project.objects.create(name="own")
    Membership.objects.create(project=own, user=cast.outsider, role=Role.MEMBER)
    cast.cluster.projects.add(own)
    Cluster.objects.filter(pk=cast.cluster.pk).update(name="lab")
    make_node(cast.cluster)
    make_node(cast.cluster)
    text = as_user(cast.outsider).get("/launch/").content.decode()
    assert '<option value="own" selected>' in text and '<option value="lab" data-projects="own" selected>' in text
    assert "It would start at once" in text and "There is no project" not in text


def test_the_page_asks_no_more_of_a_person_of_many_projects(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)

    def num_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/launch/").status_code == 200
        return len(queries)

    num_queries()  # what is asked once only
    before = num_queries()
    for number in range(8):
        project = Project.objects.create(name=f"project-{number}")
        Membership.objects.create(project=project, user=cast.mate, role=Role.MEMBER)
    assert num_queries() == before

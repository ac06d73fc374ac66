"""Code from Git on the pages: the launch form, the run's page, and the keys of a project. And the same over REST."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.launch.spec_form import typed_of
from runs.models import GitKey, Run, RunCode, User
from tests.cast import Cast, make_node, spec
from tests.git_servers import Repository
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
KEY = {"kind": "token", "place": "github.com/team", "secret": "tok-never-shown"}


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> Repository:
    settings.GIT_FILE_ROOTS = [str(tmp_path)]
    made = Repository(tmp_path / "code")
    (made.folder / "models").mkdir()
    made.commit("First lines", **{"models/train": "print(1)\n"})
    return made


def form(repository: Repository, **changes: str) -> dict[str, str]:
    document = parse_spec(spec()).resolved()
    typed = {**typed_of(document), "task": "script", "task.script": "train.py", "from": "example:hello-gpt"}
    asked = {"code-source": "git", "code-git": repository.url, "code-revision": "main", "code-path": "models"}
    return {**typed, **asked, **changes}


def test_the_form_launches_a_commit_and_the_runs_page_shows_it(
    as_user: AsUser, cast: Cast, repository: Repository
) -> None:
    make_node(cast.cluster)
    client = as_user(cast.mate)
    first = client.post("/launch/", form(repository))
    assert first.status_code == 302, first.content.decode()
    asked = Run.objects.get().spec["task"]["code"]
    assert (asked["git"], asked["revision"], asked["path"]) == (repository.url, "main", "models")
    commit = repository.commit("Second <b>lines</b>", **{"models/train": "print('<i>')\n"})
    client.post("/launch/", form(repository))
    newest = Run.objects.order_by("-created_at").first()
    assert newest is not None and RunCode.objects.get(run=newest).commit == commit
    text = client.get(f"/runs/{newest.pk}/spec/").content.decode()
    assert commit[:12] in text and "Second &lt;b&gt;lines" in text and "+print(&#x27;&lt;i&gt;&#x27;)" in text
    again = client.get("/launch/", {"from": f"run:{newest.pk}"}).content.decode()
    assert f'value="{repository.url}"' in again and 'value="git" checked' in again


def test_what_is_wrong_stands_at_the_code_and_what_was_typed_stays(
    as_user: AsUser, cast: Cast, repository: Repository
) -> None:
    make_node(cast.cluster)
    answer = as_user(cast.mate).post("/launch/", form(repository, **{"code-revision": "mian"}))
    text = answer.content.decode()
    assert answer.status_code == 422 and "has no branch, tag or commit mian" in text and 'value="mian"' in text
    assert not Run.objects.exists()


def test_a_maintainer_keeps_keys_that_nobody_reads(as_user: AsUser, cast: Cast) -> None:
    client, place = as_user(cast.owner), f"/people/{cast.project.pk}/git-keys/"
    assert client.post(place, {**KEY, "place": "?", "secret": "x y"}).status_code == 422
    assert client.post(place, KEY).status_code == 302
    shown = client.get("/people/?part=secrets").content.decode()
    assert "github.com/team" in shown and "tok-never-shown" not in shown
    listed = client.get(f"/api/v1/projects/{cast.project.name}/git-keys").json()["items"]
    assert [one["place"] for one in listed] == ["github.com/team"] and "tok-never-shown" not in str(listed)
    assert "github.com/team" not in as_user(cast.viewer).get("/people/?part=secrets").content.decode()
    key = GitKey.objects.get()
    assert client.post(f"{place}{key.pk}/delete/").status_code == 302
    assert not GitKey.objects.exists()


def test_the_commit_of_a_run_over_rest(as_user: AsUser, cast: Cast, repository: Repository) -> None:
    make_node(cast.cluster)
    client = as_user(cast.mate)
    client.post("/launch/", form(repository))
    run = Run.objects.get()
    found = client.get(f"/api/v1/runs/{run.pk}/code").json()
    assert (found["branch"], found["subject"], found["path"]) == ("main", "First lines", "models")
    assert client.get(f"/api/v1/runs/{run.pk}/code/diff").status_code == 404
    assert as_user(cast.outsider).get(f"/api/v1/runs/{run.pk}/code").status_code == 404

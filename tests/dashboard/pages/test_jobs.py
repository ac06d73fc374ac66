"""Jobs: the list and the page of one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from runs.actions import save_job
from runs.models import Job, Run, User
from tests.cast import Cast, make_node, spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def saved(cast: Cast, name: str = "nightly") -> Job:
    return save_job(actor=cast.mate, document=spec(name=name))


def test_the_list_has_the_newest_version_of_each_with_its_last_run(as_user: AsUser, cast: Cast) -> None:
    saved(cast)
    job = saved(cast)
    client = as_user(cast.mate)
    client.post(f"/jobs/{job.pk}/launch/")
    text = client.get("/jobs/").content.decode()
    assert text.count('class="name clip"') == 1 and "v2" in text and "queued" in text and "language-model" in text


def test_a_row_says_who_saved_the_job_and_lets_launch_it_who_may(as_user: AsUser, cast: Cast) -> None:
    cast.mate.first_name, cast.mate.last_name = "Mate", "<Jones>"
    cast.mate.save()
    job = saved(cast)
    Job.objects.update(name="<b>")
    drawn = as_user(cast.mate).get("/jobs/").content.decode()
    assert ">Mate &lt;Jones&gt;</span>" in drawn and ">&lt;b&gt;</a>" in drawn and "never" in drawn
    form = drawn.partition('data-module="grid"')[2].partition("</form>")[0]
    assert re.search(r'name="csrfmiddlewaretoken" value="\w{64}"', form)
    assert f'formaction="/jobs/{job.pk}/launch/" aria-label="Launch &lt;b&gt;"' in form
    Job.objects.update(created_by=None)
    drawn = as_user(cast.viewer).get("/jobs/").content.decode()
    assert f"/jobs/{job.pk}/" in drawn and f"/jobs/{job.pk}/launch/" not in drawn and "Mate" not in drawn


def test_the_page_has_all_versions_and_the_runs_of_each(as_user: AsUser, cast: Cast) -> None:
    first, second = saved(cast), saved(cast)
    client = as_user(cast.mate)
    answer = client.post(f"/jobs/{first.pk}/launch/")
    run = Run.objects.get()
    assert answer["Location"] == f"/runs/{run.pk}/" and run.job == first
    text = client.get(f"/jobs/{second.pk}/").content.decode()
    assert f"/jobs/{first.pk}/" in text and f"/runs/{run.pk}/" in text


def test_a_job_that_fits_its_cluster_no_more_is_refused_with_the_reason(as_user: AsUser, cast: Cast) -> None:
    job = save_job(actor=cast.mate, document=spec(resources={"nodes": 2}, train={"batch_size": 4}))
    make_node(cast.cluster)
    answer = as_user(cast.mate).post(f"/jobs/{job.pk}/launch/")
    assert answer.status_code == 422 and b"2 is more than this cluster has" in answer.content


def test_a_viewer_is_not_offered_to_launch(as_user: AsUser, cast: Cast) -> None:
    assert b"Change and launch" not in as_user(cast.viewer).get(f"/jobs/{saved(cast).pk}/").content


def test_an_outsider_finds_no_job(as_user: AsUser, cast: Cast) -> None:
    saved(cast)
    assert b"nightly" not in as_user(cast.outsider).get("/jobs/").content


def test_deleting_forgets_all_versions_and_keeps_the_runs(as_user: AsUser, cast: Cast) -> None:
    saved(cast)
    job = saved(cast)
    client = as_user(cast.mate)
    client.post(f"/jobs/{job.pk}/launch/")
    assert client.post(f"/jobs/{job.pk}/delete/")["Location"] == "/jobs/"
    assert not Job.objects.exists() and Run.objects.get().job is None


def test_a_filter_that_fits_nothing_says_so(as_user: AsUser, cast: Cast) -> None:
    saved(cast)
    assert b"No job has this in its name" in as_user(cast.mate).get("/jobs/?q=zzz").content


def test_a_job_that_does_not_fit_into_memory_leads_to_the_form_that_asks(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, inventory={"memory_bytes": 8 * 2**30, "cpu": {"count": 2}})
    model = {"layers": 24, "width": 8192, "heads": 8}
    job = save_job(actor=cast.mate, document=spec(task={"recipe": "language-model", "model": model}))
    client = as_user(cast.mate)
    answer = client.post(f"/jobs/{job.pk}/launch/", headers={"X-Requested-With": "fetch"}).json()
    assert "does not fit into memory" in answer["sentence"] and answer["to"] == f"/launch/?from=job%3A{job.pk}"
    assert not Run.objects.exists()
    assert 'class="btn btn-danger is-final"' in client.get(answer["to"]).content.decode()


def test_the_list_is_sorted_by_its_address_and_goes_on_where_one_scrolls(as_user: AsUser, cast: Cast) -> None:
    for number in range(60):
        saved(cast, f"job-{number:02}")
    client = as_user(cast.mate)
    text = client.get("/jobs/?sort=-name&columns=version,trains@300").content.decode()
    assert re.findall(r'title="(job-\d+)"', text) == [f"job-{number:02}" for number in range(59, 9, -1)]
    assert re.findall(r'<th [^>]*data-of="(\w+)"', text) == ["name", "version", "trains"] and 'data-rows="60"' in text
    below = client.get("/jobs/?sort=-name&fragment=rows&offset=50&limit=50&count=1")
    assert re.findall(r'title="(job-\d+)"', below.content.decode())[-1] == "job-00" and below["X-Rows"] == "60"
    key = Job.objects.get(name="job-07").pk
    seen = client.get(f"/jobs/?fragment=rows&ids={key}.nothing").content.decode()
    assert seen.count("<tr") == 1 and "job-07" in seen
    assert {"name": "saved", "kind": "column"} in client.get("/jobs/?fragment=names").json()["names"]
    assert client.get("/jobs/?sort=nonsense,trains&columns=,&density=x&fragment=rows&offset=-1").status_code == 200


def test_rows_of_others_come_to_nobody_by_their_ids(as_user: AsUser, cast: Cast) -> None:
    job = saved(cast)
    assert as_user(cast.outsider).get(f"/jobs/?fragment=rows&ids={job.pk}").content == b""

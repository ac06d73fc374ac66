from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Membership, Node, Project, Role, Run, User
from runs.values.status import Status
from tests.cast import Cast, make_node
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def text_of(client: Client) -> str:
    answer = client.get("/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_on_first_start_one_button_launches_the_example(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.mate)
    assert "Launch your first run" in text_of(client)
    answer = client.post("/launch-example/", headers={"X-Requested-With": "fetch"})
    run = Run.objects.get()
    assert run.name == "hello-gpt"
    assert answer.json()["to"] == f"/runs/{run.pk}/"
    assert "Launch your first run" not in text_of(client)


def test_a_viewer_is_told_who_can_launch(cast: Cast, as_user: AsUser) -> None:
    text = text_of(as_user(cast.viewer))
    assert "launch-example" not in text
    assert "ask an owner" in text


def test_the_example_is_launched_in_the_project_that_one_has(cast: Cast, as_user: AsUser) -> None:
    project = Project.objects.create(name="elsewhere")
    cast.cluster.projects.add(project)
    Membership.objects.create(project=project, user=cast.outsider, role=Role.MEMBER)
    as_user(cast.outsider).post("/launch-example/")
    assert Run.objects.get().project == project


def test_an_example_that_does_not_fit_the_cluster_is_refused_in_words(cast: Cast, as_user: AsUser) -> None:
    make_node(cast.cluster)
    answer = as_user(cast.mate).post("/launch-example/", headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 422
    assert "nodes" in answer.json()["sentence"]
    assert not Run.objects.exists()


def test_what_runs_is_shown_with_its_loss(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="alive", status=Status.RUNNING)
    write_series(run, "train/loss", [5.0, 2.5])
    text = text_of(as_user(cast.viewer))
    assert "alive" in text
    assert "2.50" in text


def test_what_needs_a_person_stands_first_with_its_reason(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="waits", created_at=timezone.now())
    long = make_run(name="waits-long", reason_sentence="Waiting for 9 more slots.")
    Run.objects.filter(pk=long.pk).update(created_at=timezone.now() - timedelta(hours=1))
    make_run(name="gone", status=Status.LOST, reason_sentence="Out of contact with node-x.")
    make_run(name="broken", status=Status.FAILED, reason_sentence="Rank 0 failed.")
    make_run(name="broken-long-ago", status=Status.FAILED, ended_at=timezone.now() - timedelta(days=3))
    needs = as_user(cast.viewer).get("/").context["needs"]
    assert [need.row.run.name for need in needs] == ["broken", "gone", "waits-long"]
    assert [need.sentence for need in needs] == [
        "Rank 0 failed.",
        "Out of contact with node-x.",
        "Waiting for 9 more slots.",
    ]


def test_a_run_that_stands_still_needs_a_person(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    from runs.records.metrics.models import Telemetry

    run = make_run(name="stuck", status=Status.RUNNING)
    write_series(run, "train/loss", [5.0, 2.5])
    Telemetry.objects.filter(run_id=run.pk).update(step_at=timezone.now().timestamp() - 600)
    (need,) = as_user(cast.viewer).get("/").context["needs"]
    assert need.row.run.name == "stuck"


def test_clusters_show_how_full_they_are(cast: Cast, as_user: AsUser) -> None:
    make_node(cast.cluster, slots=2)
    make_node(cast.cluster, slots=4, seen_at=None)
    text = text_of(as_user(cast.viewer))
    assert "<b>0</b> of 6 slots busy" in text
    assert "1 out of contact" in text


def test_an_outsider_sees_neither_runs_nor_clusters(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="secret", status=Status.FAILED)
    text = text_of(as_user(cast.outsider))
    assert "secret" not in text
    assert "local" not in text.split("<main")[1].split("first-spec")[0]


def test_the_palette_finds_runs_by_name_and_by_tag(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="first", tags=["blue"])
    make_run(name="second")
    client = as_user(cast.viewer)
    assert [item["label"] for item in client.get("/jump/?q=blue").json()["items"]] == ["first"]
    assert "Runs" in [item["label"] for item in client.get("/jump/?q=ru").json()["items"]]
    assert as_user(cast.outsider).get("/jump/?q=first").json()["items"] == []


def test_the_palette_finds_pages_by_letters_and_only_those_that_one_may_open(cast: Cast, as_user: AsUser) -> None:
    def found(user: User, words: str) -> list[str]:
        return [item["label"] for item in as_user(user).get("/jump/", {"q": words}).json()["items"]]

    assert found(cast.viewer, "lnch") == ["Launch a run"]
    assert found(cast.viewer, "sec acc") == ["Security of your account"]
    assert found(cast.viewer, "audit") == []
    assert found(cast.owner, "audit") == ["Audit"]


def test_running_now_has_what_runs_and_counts_nothing_that_waits(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    make_run(name="runs", status=Status.RUNNING)
    make_run(name="starts", status=Status.STARTING)
    make_run(name="recovers", status=Status.RECOVERING)
    for number in range(8):
        make_run(name=f"waits-{number}")
    context = as_user(cast.viewer).get("/").context
    assert [row.run.name for row in context["live"]] == ["runs", "recovers", "starts"] and context["num_live"] == 3
    assert [row.run.name for row in context["queued"]] == [f"waits-{number}" for number in range(6)], "first come first"
    assert context["num_queued"] == 8


def test_more_runs_than_are_drawn_are_counted_and_one_in_trouble_is_not_lost_among_them(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    lost = make_run(name="gone", status=Status.LOST, reason_sentence="Out of contact.")
    for number in range(14):
        make_run(name=f"runs-{number}", status=Status.RUNNING)
    context = as_user(cast.viewer).get("/").context
    assert context["num_live"] == 15 and len(context["live"]) == 12 and context["live"][0].run.name == "runs-13"
    assert [need.row.run for need in context["needs"]] == [lost]


def test_a_node_out_of_contact_needs_somebody(cast: Cast, as_user: AsUser) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    away = make_node(cast.cluster, "node-away", seen_at=long_ago)
    make_node(cast.cluster, "node-here")
    make_node(cast.cluster, "node-drained", seen_at=long_ago, is_draining=True)
    make_node(cast.cluster, "node-lent", seen_at=long_ago, kind=Node.Kind.BROUGHT)  # its run has words for that
    text = text_of(as_user(cast.viewer))
    needs = text[text.index('id="needs-title"') :].partition("</section>")[0]
    assert '<span class="count">1</span>' in needs and f"/nodes/{away.pk}/" in needs and "node-away" in needs
    assert "Out of contact with the server: nothing is started on it" in needs
    assert "node-here" not in needs and "node-drained" not in needs
    assert "node-away" not in text_of(as_user(cast.outsider))


def test_many_nodes_out_of_contact_are_one_line_of_their_cluster(cast: Cast, as_user: AsUser) -> None:
    for number in range(6):
        make_node(cast.cluster, f"node-{number}", seen_at=timezone.now() - timedelta(hours=1))
    (away,) = as_user(cast.viewer).get("/").context["away"]
    assert away.names == "node-0, node-1, node-2, node-3 and 2 more" and len(away.nodes) == 6


def test_nodes_are_not_called_away_because_control_is(
    cast: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_node(cast.cluster, "node-a", seen_at=timezone.now() - timedelta(hours=1))
    monkeypatch.setattr("runs.presenting.server_state.control_silence_s", lambda: 3_600.0)
    text = text_of(as_user(cast.viewer))
    assert "Needs you" not in text and "out of contact" not in text

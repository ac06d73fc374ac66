"""The page behind a link, the same as a file, and the dialog that makes links."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from structlog.testing import capture_logs

from runs import actions
from runs.models import Membership, Project, Role, Run, SharedLink, User, Workspace
from runs.values.status import Status
from tests.cast import Cast, make_run, make_sweep, spec
from tests.series import write_series

pytestmark = [pytest.mark.django_db(databases=["default", "metrics"]), pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
MARKUP = "<script>alert(1)</script>"


def open_(cast: Cast, name: str) -> Any:
    _, url = actions.share(actor=cast.mate, name=name)
    return Client().get("/shared/" + url.partition("/shared/")[2])


def text_of(cast: Cast, name: str) -> str:
    answer = open_(cast, name)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_a_guest_sees_the_run(cast: Cast) -> None:
    run = make_run(cast, status=Status.SUCCEEDED, notes="Try more\nwidth.", config={"lr": 0.1}, reason_sentence="Done.")
    write_series(run, "train/loss", [3.0, 2.0, float("nan")])
    write_series(run, "system/memory", [1.0, float("inf")])
    run.record("noted", "Something happened.")
    text = text_of(cast, f"run/{run.pk}")
    for words in (
        "hello-gpt",
        "succeeded",
        "Done.",
        "Try more",
        "lr: 0.1",
        "steps: 300",
        "Something happened.",
        "mate",
    ):
        assert words in text
    assert "NaN" in text and "∞" in text
    assert text.count("<figure class=") == 2
    assert text.index("Charts of train") < text.index("Charts of system")
    assert 'http-equiv="refresh"' not in text


def test_a_guest_sees_a_report_with_runs_of_its_project_alone(cast: Cast) -> None:
    here, there = (
        make_run(cast, name="here", config={"api_key": "hunter2"}),
        make_run(cast, name="there", config={"lr": 1}),
    )
    Run.objects.filter(pk=there.pk).update(project=Project.objects.create(name="elsewhere"))
    Membership.objects.create(user=cast.mate, project=Project.objects.get(name="elsewhere"), role=Role.MEMBER)
    for run in (here, there):
        write_series(run, "val/loss", [3.0, 1.25])
    body = (
        f"Best {{{{ run/{here.pk} val/loss min }}}}, not {{{{ run/{there.pk} val/loss min }}}}. [a](/runs/) [b](https://x.org)\n"
        f"\n```chart\nmetrics: val/loss\nruns: {here.pk}, {there.pk}\n```\n\n"
        f"```compare\nruns: {here.pk}, {there.pk}\n```\n\n![ours](/static/img/logo.svg)\n"
    )
    for pinned in (None, {}):
        report = actions.create_report(
            actor=cast.mate, project=cast.project, title="Findings", body=body, pinned=pinned
        )
        text = text_of(cast, f"report/{report.pk}")
        assert "Findings" in text and "1.25" in text and "here" in text
        assert ">there" not in text and "hunter2" not in text and "<img" not in text
        assert re.findall(r'href="([^"]*)', text) == ["https://x.org"]
        assert text.count("<figure class=") == 1


def test_the_page_runs_nothing_asks_for_nothing_and_gives_nothing(cast: Cast) -> None:
    run = make_run(cast, name=MARKUP, notes=MARKUP, tags=[MARKUP], config={"a": MARKUP}, reason_sentence=MARKUP)
    write_series(run, MARKUP, [1.0])
    run.record("noted", MARKUP)
    for name in (f"run/{run.pk}", f"compare?run={run.pk}"):
        answer = open_(cast, name)
        page = answer.content.decode().replace('<a href="?again=1">', "", 1)  # it leads to itself
        assert "<script" not in page
        assert not re.search(r"\b(src|href|action)=|url\(|@import|@font-face", page)
        assert not answer.cookies
        assert answer["Content-Security-Policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
        assert "script-src" not in answer["Content-Security-Policy"]
        assert answer["Referrer-Policy"] == "no-referrer"
        assert answer["Cache-Control"] == "private, no-store"
        assert "noindex" in answer["X-Robots-Tag"]


def test_what_goes_on_is_shown_anew_to_guests_who_ask_for_it(cast: Cast, as_user: AsUser) -> None:
    run = make_run(cast, status=Status.RUNNING)
    for name in (f"run/{run.pk}", f"compare?run={run.pk}", f"sweep/{make_sweep(cast).pk}"):
        _, url = actions.share(actor=cast.mate, name=name)
        path = "/shared/" + url.partition("/shared/")[2]
        first = Client().get(path).content.decode()
        # WCAG 2.2.1: a page that moves under its reader does so on their word.
        assert 'http-equiv="refresh"' not in first and '<a href="?again=1">' in first
        again = Client().get(path, {"again": "1"}).content.decode()
        assert '<meta http-equiv="refresh" content="30; url=?again=1">' in again and '<a href="?">' in again
    file = as_user(cast.mate).get("/share/export/", {"object": f"run/{run.pk}"})
    assert 'http-equiv="refresh"' not in file.content.decode() and "?again" not in file.content.decode()


def test_variables_and_secrets_stay_at_home(cast: Cast) -> None:
    task = {
        "script": "train.py",
        "environment": {"WANDB_MODE": "value-1"},
        "secrets": ["KEY=value-2"],
        "code": {"patch": "+value-3"},
        "arguments": ["--api-key", "value-4", "--password=value-5", "--data", "https://me:value-6@example.org/x"],
    }
    run = make_run(cast, spec=spec(task=task), config={"db_password": "value-7", "nested": [{"hf_token": "value-8"}]})
    other = make_run(cast, spec=spec(task={**task, "environment": {"WANDB_MODE": "value-9"}}))
    text = text_of(cast, f"run/{run.pk}") + text_of(cast, f"compare?run={run.pk}&run={other.pk}")
    assert re.findall(r"value-\d", text) == []
    assert "WANDB_MODE" in text and "train.py" in text and "https://…@example.org/x" in text


def test_a_guest_sees_a_comparison(cast: Cast) -> None:
    runs = [
        make_run(cast, name=f"width {width}", spec=spec(train={"steps": 300, "width": width})) for width in (64, 128)
    ]
    for place, run in enumerate(runs):
        write_series(run, "train/loss", [3.0, 1.0 + place])
        for rank in range(3):
            write_series(run, "rank/step", [1.0], labels={"rank": str(rank)})
    text = text_of(cast, f"compare?run={runs[0].pk}&run={runs[1].pk}")
    for words in ("Comparison of 2 runs", "width 64", "width 128", "train.width", "train/loss, last", "not drawn here"):
        assert words in text
    assert text.count("<figure class=") == 1  # a chart of each rank of each run tells nothing
    assert not Workspace.objects.exists(), "whoever looks decides about nobody's colours"


def test_a_guest_sees_a_sweep(cast: Cast) -> None:
    text = text_of(cast, f"sweep/{make_sweep(cast).pk}")
    for words in ("search", "minimize", "val/loss", "pruned", "0.01", "1 of at most 4"):
        assert words in text


def test_the_secret_opens_nothing_else_and_stands_in_no_log(cast: Cast) -> None:
    run = make_run(cast)
    with capture_logs() as lines:
        _, url = actions.share(actor=cast.mate, name=f"run/{run.pk}")
        secret = url.rstrip("/").rpartition("/")[2]
        for method in ("post", "put", "delete"):
            assert getattr(Client(), method)(f"/shared/{secret}/").status_code in (403, 405)
        for path in ("/", "/runs/", f"/runs/{run.pk}/", "/api/v1/runs", f"/api/v1/runs/{run.pk}", "/share/"):
            client = Client()
            client.cookies[settings.SESSION_COOKIE_NAME] = secret
            for answer in (
                client.get(path),
                Client().get(path, headers={"Authorization": f"Bearer {secret}"}),
                Client().get(path, {"token": secret, "secret": secret}),
            ):
                assert answer.status_code == Client().get(path).status_code in (302, 401)
        Client().get(f"/shared/{secret}/")
    assert secret not in str(lines)


def test_the_file_is_the_page_and_whoever_may_look_may_have_it(cast: Cast, as_user: AsUser) -> None:
    run = make_run(cast, name="Ärger / 1")
    address = f"http://testserver/runs/compare/?run={run.pk}&metric=x"
    answer = as_user(cast.viewer).get("/share/export/", {"object": f"run/{run.pk}"})
    assert answer["Content-Disposition"] == 'attachment; filename="arger-1.html"'
    assert "Ärger / 1" in answer.content.decode()
    of_page = as_user(cast.viewer).get("/share/export/", {"object": "compare?"}, headers={"Referer": address})
    assert of_page["Content-Disposition"] == 'attachment; filename="comparison-of-1-run.html"'
    assert as_user(cast.outsider).get("/share/export/", {"object": f"run/{run.pk}"}).status_code == 404


def test_the_dialog_makes_a_link_lists_it_and_revokes_it(cast: Cast, as_user: AsUser) -> None:
    run, client = make_run(cast), as_user(cast.mate)
    name = {"object": f"run/{run.pk}"}
    assert "Make a link" in client.post("/share/?fragment=dialog", name).content.decode()
    made = client.post("/share/?fragment=form", {**name, "days": "7"}).content.decode()
    assert "/shared/" in made and "until" in made and "not opened yet" in made
    link = SharedLink.objects.get()
    assert "/shared/" not in client.post("/share/?fragment=dialog", name).content.decode()
    after = client.post(f"/share/{link.pk}/revoke/?fragment=form").content.decode()
    assert "Links that open it" not in after
    link.refresh_from_db()
    assert link.revoked_at is not None


def test_an_end_that_is_no_choice_is_refused(cast: Cast, as_user: AsUser) -> None:
    answer = as_user(cast.mate).post("/share/", {"object": f"run/{make_run(cast).pk}", "days": "9999"})
    assert answer.status_code == 422
    assert "is no choice; accepted: 1, 7, 30, 365." in answer.content.decode()


@pytest.mark.parametrize("page", ["run", "sweep", "compare"])
def test_pages_offer_to_share_to_whoever_may(cast: Cast, as_user: AsUser, page: str) -> None:
    run = make_run(cast)
    path = {
        "run": f"/runs/{run.pk}/", "sweep": f"/sweeps/{make_sweep(cast).pk}/", "compare": f"/runs/compare/?run={run.pk}"
    }[page]  # fmt: skip
    assert 'action="/share/"' in as_user(cast.mate).get(path).content.decode()
    viewed = as_user(cast.viewer).get(path).content.decode()
    assert 'action="/share/"' not in viewed and "/share/export/" in viewed


def test_a_link_whose_run_is_gone_is_a_page_too(cast: Cast) -> None:
    run = make_run(cast, status=Status.SUCCEEDED)
    _, url = actions.share(actor=cast.mate, name=f"run/{run.pk}")
    Run.objects.all().delete()
    answer = Client().get("/shared/" + url.partition("/shared/")[2])
    assert answer.status_code == 410
    assert answer["Content-Security-Policy"].startswith("default-src 'none'")

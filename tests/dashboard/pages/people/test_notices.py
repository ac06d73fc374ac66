"""The bell, the page of notices, and the pages on which people and projects choose what they get."""

from __future__ import annotations

from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import NoticeRule
from runs.models.notices import Where
from runs.notices.making import make_of_events
from runs.values.status import Status
from tests.cast import Cast, make_run


def signed_in(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client


def text(client: Client, path: str) -> str:
    return " ".join(client.get(path).content.decode().split())


def test_the_bell_counts_until_all_are_read_without_a_script(cast: Cast) -> None:
    run = make_run(cast, status=Status.RUNNING)
    run.move_to(Status.FAILED, code="rank-failed", sentence="It has <b>failed</b>.")
    make_of_events(timezone.now())
    mate = signed_in(cast.mate)
    assert 'aria-label="Notices, 1 unread"' in text(mate, "/runs/") and 'aria-label="Notices"' in text(
        signed_in(cast.owner), "/runs/"
    )
    page = text(mate, "/notices/")
    assert "It has &lt;b&gt;failed&lt;/b&gt;." in page and f'href="/runs/{run.pk}/"' in page
    notice = actions.visible_notices(cast.mate).get()
    signed_in(cast.owner).post("/notices/", {"notice": notice.pk})
    assert "1 unread" in text(mate, "/notices/?fragment=bell")
    assert mate.post("/notices/", {"notice": notice.pk}).status_code == 302
    assert "unread" not in text(mate, "/notices/?fragment=bell") and "is-unread" not in text(mate, "/notices/")


def test_a_person_chooses_what_the_bell_rings_for_and_adds_mail(cast: Cast) -> None:
    mate = signed_in(cast.mate)
    assert "What the bell rings for" in text(mate, "/account/notices/")
    mate.post("/account/notices/", {"where": "page", "kind": ["failed", "waits"], "number-waits": "5"})
    mate.post("/account/notices/", {"where": "email", "kind": "sweep", "only_mine": "on"})
    rules = {rule.where: rule for rule in NoticeRule.objects.filter(owner=cast.mate)}
    assert rules["page"].kinds == {"failed": 0, "waits": 5} and not rules["page"].only_mine
    assert rules["email"].kinds == {"sweep": 0} and rules["email"].only_mine
    mail = rules["email"].pk
    about = {"since": timezone.now(), "path": "/", "what": "A run failed."}
    rules["email"].notices.create(cause="failed/1", state="failed", problem="It was refused.", **about)
    rules["email"].notices.create(cause="failed/2", state="sent", **{**about, "what": "Another one did."})
    page = text(mate, "/account/notices/")
    assert "Not sent: A run failed. (It was refused.)" in page and "Another one did." not in page
    assert mate.post(f"/notices/rules/{mail}/do/test/").status_code == 302 and rules["email"].notices.count() == 3
    for stranger in (cast.owner, cast.outsider):
        assert signed_in(stranger).post(f"/notices/rules/{mail}/do/delete/").status_code == 404
    mate.post(f"/notices/rules/{mail}/do/delete/")
    assert not NoticeRule.objects.filter(where=Where.EMAIL).exists()


def test_a_wrong_place_comes_back_with_its_problem_and_without_its_secret(cast: Cast) -> None:
    form = {
        "where": "webhook",
        "kind": ["failed", "waits"],
        "number-waits": "7",
        "destination": "http://10.0.0.1/s3cret",
    }
    answer = signed_in(cast.mate).post("/account/notices/", form)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "where NOTICE_HOSTS of the server names it" in page and "s3cret" not in page and 'value="7"' in page


def test_owners_of_a_project_alone_see_and_make_its_rules(cast: Cast) -> None:
    path = f"/people/{cast.project.pk}/notices/"
    form = {"where": "email", "kind": "limits", "destination": "team@example.org"}
    for user, code in ((cast.owner, 200), (cast.mate, 403), (cast.viewer, 403), (cast.outsider, 404)):
        assert signed_in(user).get(path).status_code == code
        assert signed_in(user).post(path, form).status_code == code
    assert NoticeRule.objects.get(project=cast.project).shown == "team@example.org"
    assert "team@example.org" in text(signed_in(cast.owner), path)


def test_whoever_sees_a_run_follows_or_mutes_it_from_its_page_and_over_rest(cast: Cast) -> None:
    run, viewer, outsider = make_run(cast), signed_in(cast.viewer), signed_in(cast.outsider)
    act, rest = (f"/runs/{run.pk}/do/{{}}/", f"/api/v1/runs/{run.pk}/{{}}")
    page = text(viewer, f"/runs/{run.pk}/")
    assert act.format("follow") in page and act.format("mute") in page and act.format("unfollow") not in page
    assert viewer.post(act.format("follow")).status_code == 302
    page = text(viewer, f"/runs/{run.pk}/?fragment=header")
    assert "you <b>follow</b> it" in page and act.format("follow") not in page and act.format("unfollow") in page
    assert "you <b>" not in text(signed_in(cast.mate), f"/runs/{run.pk}/?fragment=header")
    assert viewer.post(rest.format("mute")).status_code == 200
    assert "you <b>mute</b> it" in text(viewer, f"/runs/{run.pk}/?fragment=header")
    assert viewer.post(rest.format("unfollow")).status_code == 200 and not run.followings.exists()
    for path in (act.format("follow"), rest.format("follow"), rest.format("mute"), rest.format("unfollow")):
        assert outsider.post(path).status_code == 404 and Client().post(path).status_code in (302, 401)
    assert not run.followings.exists()


def test_rest_reads_the_bell_and_sends_a_test(cast: Cast) -> None:
    mate = signed_in(cast.mate)
    mate.get("/account/notices/")
    rule = NoticeRule.objects.get(owner=cast.mate)
    json = "application/json"
    assert mate.post("/api/v1/notices/test", {"rule": rule.pk}, content_type=json).status_code == 202
    (item,) = mate.get("/api/v1/notices").json()["items"]
    assert (item["kind"], item["state"], item["where"]) == ("test", "unread", "Trainyard")
    assert mate.post("/api/v1/notices/test", {"rule": "nosuch"}, content_type=json).status_code == 404
    assert signed_in(cast.owner).get("/api/v1/notices").json()["items"] == []

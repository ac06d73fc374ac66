"""The bell, the page of notices, and the pages on which people and projects choose what they get."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import NoticeRule
from runs.models.notices import Where
from runs.notices.browser_push import public_key
from runs.notices.making import make_of_events
from runs.notices.sending import send_of
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.receivers import web_receiver


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
    assert '<b class="strong">The bell' in text(mate, "/account/notices/")
    mate.post("/account/notices/", {"where": "page", "kind": ["failed", "waits"], "number-waits": "5"})
    mate.post("/account/notices/", {"where": "email", "kind": "sweep", "only_mine": "on"})
    rules = {rule.where: rule for rule in NoticeRule.objects.filter(owner=cast.mate)}
    assert rules["page"].kinds == {"failed": 0, "waits": 5} and not rules["page"].only_mine
    assert rules["email"].kinds == {"sweep": 0} and rules["email"].only_mine
    mail = rules["email"].pk
    change = {"rule": mail, "kind": ["done", "waits"], "number-waits": "9"}
    assert signed_in(cast.owner).post("/account/notices/", change).status_code == 404
    assert mate.post("/account/notices/", {**change, "number-waits": "many"}).status_code == 422
    assert mate.post("/account/notices/", change).status_code == 200
    rules["email"].refresh_from_db()
    assert rules["email"].kinds == {"done": 0, "waits": 9} and not rules["email"].only_mine
    assert NoticeRule.objects.filter(owner=cast.mate).count() == 2
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


def test_a_person_keeps_quiet_hours_and_chooses_a_digest(cast: Cast) -> None:
    mate, url = signed_in(cast.mate), "/account/notices/quiet-hours/"
    given = {"begins": "22:00", "ends": "07:00", "zone": "Europe/Berlin", "spares_errors": "on"}
    assert mate.post(url, given).status_code == 302
    page = text(mate, "/account/notices/")
    assert 'name="begins" value="22:00"' in page and 'value="Europe/Berlin"' in page
    refused = mate.post(url, {**given, "zone": "Mars/Base"}, headers={"X-Requested-With": "fetch"})
    assert refused.status_code == 422 and refused.json()["sentence"].startswith("zone: It must be a time zone")
    cast.mate.refresh_from_db()
    assert cast.mate.quiet_hours == {**given, "spares_errors": True}
    assert mate.post(url, {"begins": "", "ends": ""}).status_code == 302
    cast.mate.refresh_from_db()
    assert cast.mate.quiet_hours is None
    mate.post("/account/notices/", {"where": "email", "kind": "failed", "every": "day"})
    rule = NoticeRule.objects.get(owner=cast.mate, where="email")
    assert rule.every == "day" and '<option value="day" selected>' in text(mate, "/account/notices/")
    assert mate.post("/account/notices/", {"rule": rule.pk, "kind": "failed", "every": "week"}).status_code == 422
    assert "Quiet hours" not in text(signed_in(cast.owner), f"/people/{cast.project.pk}/notices/")


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


def test_rest_makes_changes_and_deletes_rules(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    mate, url, json = signed_in(cast.mate), "/api/v1/notices/rules", "application/json"
    with web_receiver() as receiver:
        asked = {"where": "webhook", "destination": receiver.url, "kinds": {"failed": None, "waits": None}}
        made = mate.post(url, {**asked, "only_mine": True}, content_type=json)
        rule = made.json()
        assert made.status_code == 201 and made["Cache-Control"] == "no-store" and len(rule["key"]) > 30
        assert (rule["kinds"], rule["shown"], rule["project"]) == ({"failed": 0, "waits": 30}, "127.0.0.1", None)
        locked = NoticeRule.objects.get(pk=rule["id"]).locked
        changed = mate.patch(f"{url}/{rule['id']}", {"kinds": {"alert": 3}, "every": "hour"}, content_type=json).json()
        assert (changed["kinds"], changed["only_mine"], changed["every"]) == ({"alert": 3}, True, "hour")
        assert changed["key"] == ""
        assert NoticeRule.objects.get(pk=rule["id"]).locked == locked
        changed = mate.patch(f"{url}/{rule['id']}", {"destination": receiver.url}, content_type=json).json()
        assert changed["key"] not in ("", rule["key"]) and (changed["kinds"], changed["every"]) == (
            {"alert": 3},
            "hour",
        )
        assert mate.post("/api/v1/notices/test", {"rule": rule["id"]}, content_type=json).status_code == 202
        send_of(rule["id"], timezone.now())
    assert [body["kind"] for body in receiver.bodies] == ["test"]
    listed = mate.get(url).json()["items"]
    assert [one["where"] for one in listed] == ["page", "webhook"] and "s3cret" not in f"{listed} {rule} {changed}"
    assert listed[1]["key"] == "", "it was shown once"
    assert mate.delete(f"{url}/{rule['id']}").status_code == 204 and len(mate.get(url).json()["items"]) == 1


def test_rest_refuses_rules_that_are_not_ones_own_and_fields_by_their_name(cast: Cast) -> None:
    owner, mate, url, json = signed_in(cast.owner), signed_in(cast.mate), "/api/v1/notices/rules", "application/json"
    mail = {"where": "email", "destination": "team@example.org", "kinds": {"failed": None}, "project": "default"}
    for user, code in ((cast.outsider, 404), (cast.viewer, 403), (cast.mate, 403), (cast.owner, 201)):
        answer = signed_in(user).post(url, mail, content_type=json)
        assert answer.status_code == code
    rule = answer.json()
    assert [one["id"] for one in owner.get(f"{url}?project=default").json()["items"]] == [rule["id"]]
    for user, code in ((cast.outsider, 404), (cast.mate, 403)):
        assert signed_in(user).get(f"{url}?project=default").status_code == code
        one = f"{url}/{rule['id']}"
        for answer in (signed_in(user).patch(one, {"kinds": {}}, content_type=json), signed_in(user).delete(one)):
            assert answer.status_code == code
    for changes, field in (
        ({"kinds": {"nonsense": 1}}, "kinds"),
        ({"kinds": {"waits": -1}}, "kinds"),
        ({"kinds": {"waits": 10**30}}, "kinds"),
        ({"where": "pigeon"}, "where"),
        ({"destination": "nobody"}, "destination"),
        ({"every": "week"}, "every"),
        ({"colour": "red"}, "colour"),
    ):
        refused = owner.post(url, {**mail, **changes}, content_type=json)
        assert refused.status_code == 422 and field in refused.content.decode()
    assert mate.patch(f"{url}/nosuch", {"kinds": {}}, content_type=json).status_code == 404
    assert NoticeRule.objects.filter(project=cast.project).count() == 1


def test_a_person_is_offered_this_browser_by_its_name_and_a_project_none(cast: Cast) -> None:
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    page = " ".join(
        signed_in(cast.mate).get("/account/notices/", headers={"User-Agent": agent}).content.decode().split()
    )
    assert f'data-key="{public_key()}" data-name="Firefox on Linux"' in page and '<option value="browser"' not in page
    page = text(signed_in(cast.owner), f"/people/{cast.project.pk}/notices/")
    assert "browser-push" not in page and '<option value="browser"' not in page and '<option value="slack"' in page


def test_the_service_worker_is_for_the_whole_site_and_for_everybody() -> None:
    answer = Client().get("/notices_worker.js")
    assert answer.status_code == 200 and answer["Content-Type"].startswith("text/javascript")
    assert "default-src 'none'" in answer["Content-Security-Policy"] and b"notificationclick" in answer.content
    assert Client().get("/app.js").status_code == 404

"""A browser gets notices by Web Push: signed, encrypted for it alone, and no more once its subscription has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import NoticeRule
from runs.models.notices import Where
from runs.notices import destinations, sending
from runs.notices.browser_push import BrowserKeys, encrypted, public_key
from runs.notices.making import make_of_events
from runs.rights.access import NotFound
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.push_service import PushBrowser, PushService, push_service, to_bytes, to_text

# RFC 8291, section 5 and appendix A: what the user agent made, what the server made, and the body that is sent.
SENTENCE = b"When I grow up, I want to be a watermelon"
BROWSER_KEY, BROWSER_AUTH = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", "BTBZMqHH6r4Tts7J_aSIgg"
BROWSER_POINT = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
SERVER_KEY, SALT = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
    "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
ENDPOINT = "https://push.example.org/s3cret"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with push_service(public_key()) as found:
        yield found


def private_key(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(to_bytes(text), "big"), ec.SECP256R1())


def save(cast: Cast, browser: PushBrowser, **changes: Any) -> NoticeRule:
    text = json.dumps(browser.subscription(name="Firefox on Linux"))
    values = {"project": None, "kinds": {"failed": ""}, "only_mine": False, "destination": text, **changes}
    return actions.save_notice_rule(actor=cast.owner, where="browser", **values)


def fail(cast: Cast, *names: str, sentence: str = "failed <b>&.") -> list[str]:
    runs = [make_run(cast, status=Status.RUNNING, name=name) for name in names]
    for run in runs:
        run.move_to(Status.FAILED, code="rank-failed", sentence=f"{run.name} {sentence}")
    make_of_events(timezone.now())
    return [run.pk for run in runs]


def send_due(after_s: float = 0) -> None:
    now = timezone.now() + timedelta(seconds=after_s)
    for rule_id in sending.due(now):
        sending.send_of(rule_id, now)


def states(rule: NoticeRule) -> list[str]:
    return list(rule.notices.order_by("pk").values_list("state", flat=True))


def test_a_browser_gets_title_sentence_and_page_signed_for_its_service(cast: Cast, service: PushService) -> None:
    rule = save(cast, service.browser)
    (run,) = fail(cast, "first")
    send_due()
    notice = rule.notices.get()
    assert (notice.state, notice.problem, service.refused) == ("sent", "", [])
    (shown,) = service.taken
    assert shown["title"].startswith("run first") and shown["body"] == "first failed <b>&."
    assert (shown["path"], shown["tag"]) == (f"/runs/{run}/", f"notice-{notice.pk}")
    (claims,), (headers,) = service.claims, service.receiver.headers
    assert claims["aud"] == f"http://127.0.0.1:{service.receiver.port}"
    assert claims["exp"] - timezone.now().timestamp() == pytest.approx(12 * 3600, abs=60)
    assert (headers["ttl"], headers["urgency"], headers["topic"]) == ("86400", "high", shown["tag"])
    assert b"first" not in service.receiver.raw[0]


def test_the_body_is_that_of_the_rfcs_example() -> None:
    keys = BrowserKeys(p256dh=BROWSER_POINT, auth=BROWSER_AUTH)
    assert to_text(encrypted(keys, SENTENCE, salt=to_bytes(SALT), ours=private_key(SERVER_KEY))) == BODY
    browser = PushBrowser(ENDPOINT, key=private_key(BROWSER_KEY), auth=to_bytes(BROWSER_AUTH))
    assert browser.opened(to_bytes(BODY)) == SENTENCE  # and so is what the tests read


def test_each_message_has_a_key_of_its_own_and_another_browser_does_not_open_it() -> None:
    browser, other = PushBrowser(ENDPOINT), PushBrowser(ENDPOINT)
    keys = BrowserKeys(**browser.subscription()["keys"])
    one, two = encrypted(keys, SENTENCE), encrypted(keys, SENTENCE)
    assert browser.opened(one) == browser.opened(two) == SENTENCE
    assert one[:16] != two[:16] and one[21:86] != two[21:86]
    with pytest.raises(InvalidTag):
        other.opened(one)


def test_the_servers_key_follows_from_its_secret(settings: Any) -> None:
    settings.SECRET_KEY = "one" * 20
    first = public_key()
    settings.SECRET_KEY = "another" * 10
    assert public_key() != first
    settings.SECRET_KEY = "one" * 20
    assert public_key() == first and len(to_bytes(first)) == 65


def test_a_service_for_which_another_key_was_named_refuses_and_that_is_shown(
    cast: Cast, service: PushService, settings: Any
) -> None:
    rule = save(cast, service.browser)
    settings.SECRET_KEY = "another" * 10
    actions.do_notice_rule(actor=cast.owner, rule_id=rule.pk, verb="test")
    send_due()
    assert service.taken == [] and service.refused == ["another key than the browser named"]
    assert (rule.notices.get().state, rule.notices.get().problem) == ("failed", "127.0.0.1 answered 403.")


@pytest.mark.parametrize(
    ("site", "sub"),
    [("https://yard.example.org", "https://yard.example.org"), ("http://127.0.0.1:8000", "mailto:a@b.c")],
)
def test_a_service_reads_whom_it_may_ask_about_messages(
    cast: Cast, service: PushService, settings: Any, site: str, sub: str
) -> None:
    settings.PUBLIC_URL, settings.DEFAULT_FROM_EMAIL = site, "a@b.c"
    save(cast, service.browser)
    fail(cast, "first")
    send_due()
    assert [one["sub"] for one in service.claims] == [sub]


@pytest.mark.parametrize("code", [404, 410])
def test_a_subscription_that_has_ended_is_deleted_with_what_waits_for_it(
    cast: Cast, service: PushService, code: int
) -> None:
    rule, other = save(cast, service.browser), save(cast, PushBrowser(service.browser.endpoint))
    NoticeRule.objects.filter(pk=other.pk).update(kinds={})
    service.receiver.codes = [code]
    fail(cast, "first", "second")
    send_due()
    send_due(3600)
    assert len(service.receiver.raw) == 1 and not rule.notices.exists()
    assert list(NoticeRule.objects.filter(where=Where.BROWSER)) == [other]


def test_a_browser_that_subscribed_anew_meanwhile_gets_it_there(
    cast: Cast, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, real = save(cast, PushBrowser(service.browser.endpoint)), destinations.send
    service.receiver.codes = [410]
    fail(cast, "first")

    def subscribe_anew_and_send(*arguments: Any) -> None:
        save(cast, service.browser, rule=NoticeRule.objects.get(pk=rule.pk))
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sending, "send", subscribe_anew_and_send)
        send_due()
    assert states(rule) == ["waiting"]
    send_due(3)
    assert states(rule) == ["sent"] and len(service.taken) == 1


def test_a_busy_service_is_tried_again_in_order_with_the_same_topic(cast: Cast, service: PushService) -> None:
    rule = save(cast, service.browser)
    service.receiver.codes = [429, 503]
    fail(cast, "first", "second")
    send_due()
    assert states(rule) == ["waiting", "waiting"] and len(service.receiver.raw) == 1
    send_due(3)
    send_due(3600)
    assert [one["body"].split()[0] for one in service.taken] == ["first", "second"]
    topics = [one["topic"] for one in service.receiver.headers]
    assert topics[0] == topics[1] == topics[2] != topics[3]


def test_quiet_hours_and_digests_make_one_message(cast: Cast, service: PushService) -> None:
    rule = save(cast, service.browser, every="hour")
    fail(cast, *(f"run-{number}" for number in range(8)))
    send_due()
    assert states(rule) == ["held"] * 8 and not service.receiver.raw
    send_due(3601)
    (shown,) = service.taken
    assert (shown["title"], shown["path"]) == ("8 notices", "/notices/")
    assert shown["body"].splitlines()[::6] == ["run-0 failed <b>&.", "and 2 more"]


@pytest.mark.parametrize("letters", ['"\\', "é", "\N{FIRE}", "\u202e", "a"])
def test_the_longest_message_fits_into_one_record(cast: Cast, service: PushService, letters: str) -> None:
    rule = save(cast, service.browser)
    fail(cast, letters * (60 // len(letters)), sentence=letters * 3000)
    rule.notices.update(count=1_000_000, place=letters * 100)
    send_due()
    assert states(rule) == ["sent"] and len(service.receiver.raw[0]) <= 4096


@pytest.mark.parametrize(
    "changes",
    [
        {"keys": {}},
        {"keys": {"p256dh": to_text(b"\4" + bytes(64)), "auth": to_text(bytes(16))}},  # no point of the curve
        {"keys": {"p256dh": BROWSER_POINT, "auth": to_text(bytes(15))}},
        {"keys": {"p256dh": BROWSER_POINT, "auth": "\N{FIRE}"}},
        {"endpoint": None},
        {"name": 5},
    ],
)
def test_what_is_no_subscription_is_refused_without_repeating_it(cast: Cast, changes: dict[str, Any]) -> None:
    text = json.dumps(PushBrowser(ENDPOINT).subscription(**changes))
    for wrong in (text, "", "s3cret"):
        with pytest.raises(ValidationError, match="It must be a subscription of a browser as JSON") as refused:
            save(cast, PushBrowser(ENDPOINT), destination=wrong)
        assert list(refused.value.message_dict) == ["destination"] and "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://127.0.0.1:9/s3cret", "where NOTICE_HOSTS of the server names it"),
        ("https://169.254.169.254/s3cret", "where NOTICE_HOSTS of the server names it"),
        ("http://93.184.216.34/s3cret", "without encryption"),
        ("file:///etc/s3cret", "must be a URL"),
        ("https://93.184.216.34/\r\ns3cret", "must be a URL"),
    ],
)
def test_an_endpoint_leads_to_a_public_host_alone(cast: Cast, endpoint: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        save(cast, PushBrowser(endpoint))
    assert "s3cret" not in str(refused.value)


def test_an_endpoint_that_leads_inside_later_gets_nothing(
    cast: Cast, service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = save(cast, service.browser)
    monkeypatch.setenv("NOTICE_HOSTS", "")
    fail(cast, "first")
    send_due()
    assert not service.receiver.raw and "NOTICE_HOSTS" in rule.notices.get().problem


def test_of_a_browser_its_name_and_host_alone_are_shown(cast: Cast, service: PushService) -> None:
    rule = save(cast, service.browser)
    kept = NoticeRule.objects.get(pk=rule.pk)
    assert kept.shown == "Firefox on Linux (127.0.0.1)" and rule.key == ""
    for secret in ("s3cret", service.browser.subscription()["keys"]["auth"]):
        assert secret not in f"{kept.locked} {kept.shown}"
    odd = save(cast, service.browser, destination=json.dumps(service.browser.subscription(name="\ud800\u202e\n" * 99)))
    assert len(odd.shown) < 80 and odd.shown.isprintable()


def test_nobody_adds_sees_changes_or_tests_the_browser_of_another(cast: Cast, service: PushService) -> None:
    rule = save(cast, service.browser)
    with pytest.raises(ValidationError, match="not 'browser'"):
        save(cast, service.browser, project=cast.project)  # it is a person's
    url, json_type = "/api/v1/notices/rules", "application/json"
    for user in (cast.mate, cast.viewer, cast.outsider):
        client = Client()
        client.force_login(user)
        assert rule.pk not in client.get(url).content.decode() + client.get("/account/notices/").content.decode()
        assert client.get(f"{url}/{rule.pk}").status_code == 404
        change = {"destination": json.dumps(PushBrowser(service.browser.endpoint).subscription())}
        assert client.patch(f"{url}/{rule.pk}", change, content_type=json_type).status_code == 404
        assert client.post("/api/v1/notices/test", {"rule": rule.pk}, content_type=json_type).status_code == 404
        assert client.post(f"/notices/rules/{rule.pk}/do/test/").status_code == 404
        assert client.delete(f"{url}/{rule.pk}").status_code == 404
        with pytest.raises(NotFound):
            actions.do_notice_rule(actor=user, rule_id=rule.pk, verb="test")
    send_due()
    assert not service.receiver.raw and NoticeRule.objects.get(pk=rule.pk).locked == rule.locked


def test_rest_adds_a_browser_and_sends_it_a_test(cast: Cast, service: PushService) -> None:
    client = Client()
    client.force_login(cast.mate)
    asked = {"where": "browser", "destination": json.dumps(service.browser.subscription()), "kinds": {"failed": None}}
    made = client.post("/api/v1/notices/rules", asked, content_type="application/json")
    assert made.status_code == 201 and made.json()["shown"] == "A browser (127.0.0.1)"
    assert "s3cret" not in made.content.decode()
    asked = {"rule": made.json()["id"]}
    assert client.post("/api/v1/notices/test", asked, content_type="application/json").status_code == 202
    send_due()
    assert [one["body"] for one in service.taken] == ["This is a test: notices of this rule get here."]
    assert service.receiver.headers[0]["urgency"] == "normal"

"""A browser that shows notices: its service worker under the policy of our pages, and the button that subscribes.

No push service of a maker is reached from here. Its place is taken where the page asks ``pushManager`` alone: the
endpoint is a service on this machine, and what that opens is delivered by the browser's own tools. The Chromium without
windows shows no notification, so there the worker's last call is looked at; one that has windows shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Worker, expect

from tests.browser.conftest import Seat, new_context, seated, sign_in_link, sitting
from tests.machine import find_chromium
from tests.push_service import PushService, push_service
from tests.servers import short_folder
from tests.up_process import Up, new_home, wait_until

PLACE, WORKER = "/account/notices/", "/notices_worker.js"
# What the service of a maker would give: one subscription, until it is lost.
SUBSCRIBE = """
  const of = (name) => JSON.parse(sessionStorage.getItem(name));
  const subscription = () => ({ toJSON: () => (%s), unsubscribe: async () => sessionStorage.clear() });
  PushManager.prototype.getSubscription = async () => of("asked") && subscription();
  PushManager.prototype.subscribe = async (options) => {
    sessionStorage.setItem("asked", JSON.stringify(options));
    return subscription();
  };"""
RECORD = "registration.showNotification = async (title, options) => { self.shown = { title, ...options }; }"
SHOWN = """async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(
  ({ title, body, tag, data }) => ({ title, body, tag, data }))"""
CLICK = """async (path) => {
  const went = [], waits = [];
  clients.openWindow = async (url) => went.push(`opened ${url}`);
  WindowClient.prototype.focus = async function () { went.push(`shown ${new URL(this.url).pathname}`); };
  const notification = { data: path, close: () => went.push("closed") };
  const waitUntil = (promise) => waits.push(promise);
  dispatchEvent(Object.assign(new Event("notificationclick"), { notification, waitUntil }));
  await Promise.all(waits);
  return went;
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[Up]:
    with short_folder("ty-push-") as folder:
        up = Up(new_home(folder), NODES="0", NOTICE_HOSTS="127.0.0.1")
        try:
            yield up.wait_until_ready()
        finally:
            up.close()


@pytest.fixture(scope="module")
def session(site: Up, browser: Browser) -> Any:
    with sitting(browser, site.url) as seat:
        seat.page.goto(sign_in_link(site))
        expect(seat.page).to_have_url(f"{site.url}/")
        return seat.page.context.storage_state()


@pytest.fixture
def seat(site: Up, browser: Browser, session: Any) -> Iterator[Seat]:
    with sitting(browser, site.url, storage_state=session) as one:
        one.page.context.grant_permissions(["notifications"], origin=site.url)
        yield one


@pytest.fixture
def seat_with_notifications(site: Up, browser: Browser, session: Any) -> Iterator[Seat]:
    path = find_chromium(with_windows=True)
    if path == find_chromium():
        pytest.skip("this machine has no Chromium that shows notifications")
    whole = browser.browser_type.launch(executable_path=path, args=["--no-sandbox"])
    context = new_context(whole, storage_state=session)
    try:
        context.grant_permissions(["notifications"], origin=site.url)
        with seated(context, site.url) as one:
            yield one
    finally:
        whole.close()


@pytest.fixture
def service(seat: Seat) -> Iterator[PushService]:
    key = card_of(seat.go(PLACE)).get_attribute("data-key") or ""
    with push_service(key) as one:
        seat.page.add_init_script(SUBSCRIBE % json.dumps(one.browser.subscription()))
        yield one


class Delivery:
    """The browser's own tools for service workers."""

    def __init__(self, seat: Seat) -> None:
        self.seat, self.registrations = seat, list[str]()
        self.tools = seat.page.context.new_cdp_session(seat.page)
        self.tools.on("ServiceWorker.workerRegistrationUpdated", self._update)
        self.tools.send("ServiceWorker.enable")

    def _update(self, event: dict[str, Any]) -> None:
        self.registrations += [one["registrationId"] for one in event["registrations"]]

    def deliver(self, message: dict[str, Any]) -> None:
        wait_for(self.seat.page, lambda: self.registrations)
        about = {"origin": self.seat.url, "registrationId": self.registrations[-1], "data": json.dumps(message)}
        self.tools.send("ServiceWorker.deliverPushMessage", about)


def wait_for(page: Page, condition: Any) -> None:
    """Wait while the page's events go on."""

    def look() -> Any:
        page.wait_for_timeout(50)
        return condition()

    wait_until(look, "the browser's tools")


def card_of(page: Page) -> Locator:
    return page.locator("[data-module=browser-push]")


def worker_of(page: Page) -> Worker:
    page.evaluate(f"navigator.serviceWorker.register('{WORKER}')")
    assert page.evaluate("navigator.serviceWorker.ready.then((one) => one.scope)") == page.url.replace(PLACE, "/")
    (worker,) = page.context.service_workers
    return worker


def test_the_button_subscribes_and_what_the_server_sends_is_shown(seat: Seat, service: PushService) -> None:
    page = seat.go(PLACE)
    delivery, button = Delivery(seat), card_of(page).get_by_role("button", name="Notify this browser")
    button.click()
    rule = page.locator(".notice-rules li").filter(has_text="Chrome on Linux (127.0.0.1)")
    expect(rule).to_contain_text("only mine")
    expect(card_of(page)).to_contain_text("This browser shows your notices.")
    expect(button).to_be_hidden()
    asked = json.loads(page.evaluate("sessionStorage.getItem('asked')"))
    assert asked == {"userVisibleOnly": True, "applicationServerKey": service.browser.named_key}
    rule.get_by_role("button", name="Send a test").click()
    wait_until(lambda: service.taken, "the service has taken the test")
    assert service.refused == []
    worker = worker_of(page)
    worker.evaluate(RECORD)
    delivery.deliver(service.taken[0])
    wait_for(page, lambda: worker.evaluate("self.shown"))
    shown = worker.evaluate("self.shown")
    assert (shown["title"], shown["data"]) == ("Trainyard", "/notices/") and shown["tag"].startswith("notice-")
    assert shown["body"] == "This is a test: notices of this rule get here."

    page.evaluate("sessionStorage.clear()")  # the browser's data went, the rule stayed
    page.reload()
    key = rule.get_attribute("data-key")
    with page.expect_response("**/api/v1/notices/rules/*") as changed:
        button.click()
    assert changed.value.request.method == "PATCH" and changed.value.status == 200
    expect(rule).to_have_attribute("data-key", str(key))
    rule.get_by_role("button", name="Delete").click()
    page.locator("#confirm-yes").click()
    expect(rule).to_have_count(0)
    expect(button).to_be_visible()


def test_the_worker_is_served_under_the_policy_of_the_pages(seat: Seat) -> None:
    worker = worker_of(seat.go(PLACE))
    assert worker.url == f"{seat.url}{WORKER}"
    answer = seat.page.context.request.get(worker.url)
    assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/javascript")


def test_a_click_goes_to_the_tab_of_the_page_or_opens_one(seat: Seat) -> None:
    """A browser lets a worker focus and open tabs after a hand's click alone: both are caught before that."""
    worker, other = worker_of(seat.go(PLACE)), seat.page.context.new_page()
    other.goto(f"{seat.url}/notices/")
    assert worker.evaluate(CLICK, "/notices/") == ["closed", "shown /notices/"]
    assert worker.evaluate(CLICK, "/account/") == ["closed", f"shown {PLACE}"]
    assert worker.evaluate(CLICK, "/runs/none/") == ["closed", "opened /runs/none/"]


def test_a_notification_is_shown_once_however_often_it_comes(seat_with_notifications: Seat) -> None:
    seat = seat_with_notifications
    page, delivery = seat.go(PLACE), Delivery(seat)
    worker_of(page)
    first = {"title": "run first", "body": "It failed <b>&.", "path": "/runs/first/", "tag": "notice-1"}
    delivery.deliver(first)
    wait_for(page, lambda: page.evaluate(SHOWN))
    delivery.deliver(first)
    delivery.deliver({**first, "tag": "notice-2"})
    wait_for(page, lambda: len(page.evaluate(SHOWN)) > 1)
    shown = {key: value for key, value in first.items() if key != "path"} | {"data": "/runs/first/"}
    assert sorted(page.evaluate(SHOWN), key=lambda one: one["tag"]) == [shown, {**shown, "tag": "notice-2"}]


def test_a_browser_that_is_not_allowed_or_has_no_service_says_so(seat: Seat) -> None:
    seat.watch.expect("incognito mode")
    page = seat.go(PLACE)
    card, rules = card_of(page), page.locator(".notice-rules li")
    card.get_by_role("button").click()  # this Chromium has no push service
    expect(card.get_by_role("alert")).to_contain_text("push service did not answer")
    page.context.clear_permissions()
    card.get_by_role("button").click()
    expect(card.get_by_role("alert")).to_contain_text("The browser does not allow it")
    expect(rules).to_have_count(1)


def test_an_endpoint_that_the_server_refuses_is_named(seat: Seat) -> None:
    seat.watch.expect("422")
    wrong = json.dumps({"endpoint": "https://10.0.0.1/s3cret", "keys": {"p256dh": "", "auth": ""}})
    seat.page.add_init_script(SUBSCRIBE % wrong)
    card = card_of(seat.go(PLACE))
    card.get_by_role("button").click()
    expect(card.get_by_role("alert")).to_contain_text("It must be a subscription of a browser as JSON")


def test_where_the_address_is_not_secure_a_sentence_stands_in_place_of_the_button(seat: Seat) -> None:
    seat.page.add_init_script("Object.defineProperty(window, 'isSecureContext', { value: false })")
    card = card_of(seat.go(PLACE))
    expect(card.get_by_role("alert")).to_have_text("Browsers show notices of https addresses and of localhost only.")
    expect(card.get_by_role("button")).to_be_hidden()

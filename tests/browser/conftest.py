"""Somebody signed in, and runs to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.browser.watch import Watch
from tests.up_process import OURS, ROOT, Up
from tests.whole.runs import Yard, example
from trainyard.bundle import pack

PATIENCE_MS = 60_000
DESK: ViewportSize = {"width": 1440, "height": 900}
TINY = {"layers": 1, "width": 32, "heads": 2, "context": 32}
# Its log is dull and its loss falls; with `--fail` it ends as scripts do.
SCRIPT = """
import sys, time, trainyard
run = trainyard.init()
def deep():
    raise RuntimeError("the boiler is cold")
for step in range(1, 40_000):
    run.log({"train/loss": 4 / step**0.3, "train/tokens_per_second": 9_000 + 400 * (step % 7)}, step=step)
    print(f"step {step}: all is well", flush=True)
    if "--fail" in sys.argv and step == 5:
        deep()
    time.sleep(0.25)
"""


@dataclass
class Seat:
    """A page, what went wrong in it, and where the site is."""

    page: Page
    watch: Watch
    url: str

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page


Sit = Callable[..., Any]


def sign_in_link(up: Up) -> str:
    """A one-time link: what `up` has said, the first time; then as somebody at the server's own terminal gets it,
    from a process that takes seconds to begin."""
    if link := up.take_link():
        return link
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run(
        [sys.executable, "-m", "dashboard.sign_in"], cwd=ROOT, env={**environment, "TRAINYARD_HOME": str(up.home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A context at a desk and without motion: a lamp that pulses would have all of its page painted sixty times a
    second."""
    context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE_MS)
    return context


@contextmanager
def sitting(browser: Browser, url: str, **options: Any) -> Iterator[Seat]:
    """A page of a context of its own; whatever went wrong in it fails the test at the end."""
    context = new_context(browser, **options)
    try:
        with seated(context, url) as seat:
            yield seat
    finally:
        context.close()


@contextmanager
def seated(context: BrowserContext, url: str) -> Iterator[Seat]:
    page = context.new_page()
    watch = Watch(page)
    try:
        yield Seat(page, watch, url)
        assert watch.unexpected() == []
    finally:
        print(watch.last_words())  # which pytest shows of a test that failed
        context.set_offline(True)  # what a page saves as it is left would come after the next test has put all back
        page.close()
        context.set_offline(False)


@pytest.fixture(scope="session")
def session(browser: Browser, running_trainyard: Up) -> Any:
    """The cookies of the administrator, who came in by the link."""
    expect.set_options(timeout=PATIENCE_MS)
    with sitting(browser, running_trainyard.url) as seat:
        seat.page.goto(sign_in_link(running_trainyard))
        expect(seat.page).to_have_url(f"{running_trainyard.url}/")
        return seat.page.context.storage_state()


@pytest.fixture(scope="session")
def desk(browser: Browser, session: Any) -> Iterator[BrowserContext]:
    """The administrator's context that tests share: what the pages of one have fetched, those of the next find."""
    context = new_context(browser, storage_state=session, permissions=["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def sit(browser: Browser, desk: BrowserContext, session: Any, running_trainyard: Up, office: Yard) -> Iterator[Sit]:
    """``sit(viewport=DESK)``: a seat of the administrator, to whom charts look as they do at first. In a test the first
    is at the desk that all share, and every further one is in a context of its own, as somebody else's would be."""
    office.http.put("/projects/default/workspace", json={"state": {}}).raise_for_status()
    url, taken = running_trainyard.url, []
    with ExitStack() as stack:

        def sit(viewport: ViewportSize = DESK) -> Seat:
            taken.append(viewport)
            if len(taken) > 1:
                return stack.enter_context(sitting(browser, url, storage_state=session, viewport=viewport))
            seat = stack.enter_context(seated(desk, url))
            seat.page.set_viewport_size(viewport)
            forget_storage(seat)
            return seat

        yield sit


def forget_storage(seat: Seat) -> None:
    """Let the page find nothing that those of other tests have stored; cookies and what was fetched stay."""
    kinds = "local_storage,indexeddb,cache_storage,service_workers"
    protocol = seat.page.context.new_cdp_session(seat.page)
    protocol.send("Storage.clearDataForOrigin", {"origin": seat.url, "storageTypes": kinds})
    protocol.detach()


@pytest.fixture
def seat(sit: Sit) -> Seat:
    seat: Seat = sit()
    return seat


@pytest.fixture(scope="session")
def office(running_trainyard: Up) -> Iterator[Yard]:
    """The REST API, for what all the tests here share."""
    with Yard(running_trainyard) as one:
        yield one


@pytest.fixture(scope="session")
def succeeded(office: Yard) -> str:
    """The id of a run that was trained to its end."""
    run_id = office.submit(tiny("well-done", steps=30))
    assert office.wait_for_end(run_id)["status"] == "SUCCEEDED"
    return run_id


@pytest.fixture(scope="session")
def failed(office: Yard, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a run whose script raised."""
    run_id = office.submit(scripted(office, tmp_path_factory.mktemp("code"), "cold-boiler", "--fail"))
    assert office.wait_for_end(run_id)["status"] == "FAILED"
    return run_id


def tiny(name: str, **train: Any) -> dict[str, Any]:
    """A spec that one rank trains in seconds."""
    train = {"batch_size": 8, "warmup_steps": 1, "validate_every_steps": 100, **train}
    spec = example("tiny-steps", **train)
    spec["task"]["model"] = TINY
    return spec | {"name": name, "resources": {"nodes": 1}}


def scripted(office: Yard, folder: Path, name: str, *arguments: str) -> dict[str, Any]:
    (folder / "train.py").write_text(SCRIPT)
    stored = office.http.post("/bundles", content=packed(folder))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "arguments": list(arguments), "code": {"sha256": stored.json()["sha256"]}}
    return {"name": name, "resources": {"nodes": 1}, "restarts": {"max": 0}, "task": task}


def packed(folder: Path) -> bytes:
    return pack(folder)[0]

"""Pictures of every page, of which docs keeps what its pages show: `SCREENSHOTS=1 make test
ARGS=tests/browser/test_screenshots.py`."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.load.planting import plant_lines, plant_odd
from tests.browser.conftest import PATIENCE_MS, scripted, sign_in_link, sitting
from tests.browser.places import FOR_STRANGERS, PLACES, furnish
from tests.servers import short_folder
from tests.up_process import ROOT, Up, new_home, wait_until
from tests.whole.runs import Yard, example
from tests.whole.test_recovery import victim

pytestmark = [
    pytest.mark.skipif(os.environ.get("SCREENSHOTS") != "1", reason="only with SCREENSHOTS=1"),
    pytest.mark.timeout(2400),
]

FOLDER = ROOT / "docs" / "screenshots"
LOOKS = (("light", 1440), ("dark", 390))
MAIN = {"home", "runs", "run-live", "run-failed", "launch", "clusters"}
LOOKS_OF_MAIN = (("light", 1440), ("dark", 1440), ("dark", 390))
LEFT_OUT = {
    "runs-filtered-to-none",
    "compare",
    "compare-nothing",
    "run-media-none",
    "launch-script",
    "new-cluster",
    "new-dataset",
    "new-project",
    "project-data",
    "who-may-what",
    "audit",
    "personal-data",
    "own-secrets",
    "not-found",
    "admin-runs",
}
SHOWN = frozenset(
    re.findall(r"screenshots/([\w-]+\.jpg)", "".join(page.read_text() for page in FOLDER.parent.rglob("*.md")))
)
QUALITY = 80
PATIENT_S = 900.0  # a language model takes minutes where the cores have other work too
# Pages with more on them than the tests need; what is done there before the picture is in `ready`.
SCENES = {
    "compare": "/runs/compare/?{sweep}&smooth=ema:0.6",
    "run-restarted": "/runs/{restarted}/?filter=loss&smooth=ema:0.7",
    "run-odd": "/runs/{odd}/?smooth=gaussian:0.9",
    "run-full": "/runs/{odd}/?open=rank/step_seconds&smooth=ema:0.5",
    "run-search": "/runs/{talkative}/logs/?q=loss+1%5C.2.*norm+1%5C.9&regex=1",
    "run-long-log": "/runs/{talkative}/logs/",
}
ARE_DRAWN = """() => [...document.querySelectorAll(".chart-card")].every((card) => {
    const {top, bottom} = card.getBoundingClientRect();
    return bottom < 0 || top > innerHeight || card.querySelector("canvas") || card.matches(".is-empty");
})"""
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
WARNING = "WARNING the loss is not finite: this step is skipped"


@pytest.fixture
def own_trainyard() -> Iterator[Up]:
    """A Trainyard where nothing has happened yet."""
    with short_folder("ty-shots-") as folder:
        up = Up(new_home(folder), NODES="2")
        try:
            up.wait_until_said("Nodes in contact")
            yield up
        finally:
            up.close()


def test_every_page_is_photographed(browser: Browser, own_trainyard: Up, tmp_path: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture in FOLDER.glob("*.jpg"):
        if picture.name not in SHOWN:
            picture.unlink()
    with Yard(own_trainyard) as yard, sitting(browser, own_trainyard.url, reduced_motion="reduce") as seat:
        page = seat.page
        page.goto(sign_in_link(own_trainyard))
        shoot(page, "home-empty")
        things = furnish(yard)
        things["failed"] = yard.submit(scripted(yard, tmp_path, "cold-boiler", "--fail"))
        things["succeeded"] = yard.submit(example("hello-gpt"))
        yard.wait_for_end(things["failed"])
        yard.wait_for_end(things["succeeded"], PATIENT_S)
        stage(yard, things)
        things["live"] = yard.submit(example("tiny-steps", steps=50_000) | {"name": "tiny-steps"})
        yard.wait_for_step(things["live"], 300, PATIENT_S)
        for name in sorted(PLACES.keys() - LEFT_OUT - set(FOR_STRANGERS)):
            seat.go(PLACES[name].format(**things))
            shoot(page, name)
        for name, path in SCENES.items():
            seat.go(path.format(**things))
            shoot(page, name)
        yard.post(f"/runs/{things['live']}/stop")
        yard.wait_for_end(things["live"])
    with sitting(browser, own_trainyard.url, reduced_motion="reduce") as seat:
        for name in FOR_STRANGERS:
            seat.go(PLACES[name].format(**things))
            shoot(seat.page, name)


def test_a_recovered_run_is_photographed(browser: Browser, own_trainyard: Up) -> None:
    """The picture of docs/recovery.md: `ARGS="tests/browser/test_screenshots.py -k recovered"` makes it alone."""
    with Yard(own_trainyard) as yard, sitting(browser, own_trainyard.url, reduced_motion="reduce") as seat:
        seat.page.goto(sign_in_link(own_trainyard))
        shoot_recovered(yard, seat)


def shoot_recovered(yard: Yard, seat: Any) -> None:
    spec = example("hello-gpt", steps=600, validate_every_steps=0)
    spec |= {"name": "carries-on", "checkpoint": {"every_steps": 100}, "hangs": {"after": "5s"}}
    run = yard.submit(spec)
    for what, step in ((signal.SIGKILL, 150), (signal.SIGSTOP, 350)):
        yard.wait_for_step(run, step, PATIENT_S)
        attempt = yard.run(run)["attempt"]
        os.kill(victim(yard, run, "rank 1"), what)
        wait_until(lambda attempt=attempt: yard.run(run)["attempt"] == attempt + 1, "it is started again")
    assert yard.wait_for_end(run, PATIENT_S)["status"] == "SUCCEEDED"
    seat.go(f"/runs/{run}/timeline/")
    shoot(seat.page, "run-recovered")


def stage(yard: Yard, things: dict[str, str]) -> None:
    """Make the runs of SCENES: a sweep, one that was restarted, one with odd values on four ranks, a long log."""
    rates = (3e-4, 1e-3, 3e-3, 1e-2)
    sweep = [
        yard.submit(example("hello-gpt", steps=80, learning_rate=one) | {"name": f"rate-{one:g}"}) for one in rates
    ]
    things["sweep"] = "&".join(f"run={run}" for run in sweep)
    for run in sweep:
        yard.wait_for_end(run, PATIENT_S)
    restarted = example("tiny-steps", steps=100_000) | {"name": "tried-again", "checkpoint": {"every_steps": 200}}
    things["restarted"] = yard.submit(restarted)
    yard.wait_for_step(things["restarted"], 330, PATIENT_S)
    yard.post(f"/runs/{things['restarted']}/stop")
    yard.wait_for_end(things["restarted"])
    yard.post(f"/runs/{things['restarted']}/restart")
    yard.wait_for_step(things["restarted"], 700, PATIENT_S)
    yard.post(f"/runs/{things['restarted']}/stop")
    yard.wait_for_end(things["restarted"])
    things["odd"] = plant_odd(yard.http, "a-slow-rank")
    places = {61_003: WARNING, 61_011: WARNING, 70_005: ERROR}
    things["talkative"] = plant_lines(yard.http, "eight-ranks", 100_000, planted=places)


def shoot(page: Page, name: str) -> None:
    """Write the page as it is now in its looks."""
    if name == "run-failed":
        page.get_by_text("Evidence").click()
    if name == "run-long-log":
        page.get_by_role("button", name="First error").click()
    for theme, width in LOOKS_OF_MAIN if name in MAIN else LOOKS:
        page.set_viewport_size({"width": width, "height": 900 if width > 600 else 844})
        scheme: Any = theme
        page.emulate_media(color_scheme=scheme)
        if name == "admin":  # it looks at the theme once
            page.reload()
        settle(page)
        file = f"{name}-{width}-{theme}.jpg"
        picture = page.screenshot(type="jpeg", quality=QUALITY)
        if file in SHOWN:
            (FOLDER / file).write_bytes(picture)
    page.emulate_media(color_scheme="light")


def settle(page: Page) -> None:
    """Return when what is in view has been drawn."""
    lamp = page.locator(".connection")
    if lamp.count():
        expect(page.locator(".connection[data-state=live]")).to_be_attached(timeout=PATIENCE_MS)
    if page.locator("[data-module=charts]").count():
        expect(page.locator(".chart-card canvas").first).to_be_visible(timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")
        page.wait_for_function(ARE_DRAWN, timeout=PATIENCE_MS)
    if page.locator("[data-module=logs]").count():
        expect(page.locator(".log-line").first).to_be_visible(timeout=PATIENCE_MS)
    if page.locator("[data-module=media]").count():
        expect(page.locator(".media-body > *").first).to_be_visible(timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")
    if page.locator("#swagger-ui").count():
        expect(page.locator("#swagger-ui .opblock").first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_function("document.fonts.status === 'loaded'", timeout=PATIENCE_MS)
    page.evaluate("new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))")

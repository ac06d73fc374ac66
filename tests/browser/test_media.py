"""The Media tab with a real run: every kind, its steps, all cards together, and what hostile scripts log."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.albums import HOSTILE, LIVE, NUM_ROWS, STEPS, album, told
from tests.browser.conftest import Seat, Sit, packed
from tests.browser.test_pages import PHONE, TOO_WIDE, barriers
from tests.up_process import ROOT, Up
from tests.whole.runs import Yard

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def logged(running_trainyard: Up, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a run that has media of every kind."""
    return album(running_trainyard, tmp_path_factory.mktemp("album"))


@pytest.fixture
def media(seat: Seat, logged: str) -> Page:
    page = seat.go(f"/runs/{logged}/media/")
    expect(card(page, "samples/digit").locator("img")).to_be_visible()
    expect(card(page, "samples/digit")).to_have_attribute("data-shown", "40")
    return page


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def seen(page: Page, name: str) -> Locator:
    """The card, in view: what is not is not drawn."""
    card(page, name).scroll_into_view_if_needed()
    return card(page, name)


def slider(page: Page, name: str) -> Locator:
    """The slider of a card that knows its steps: before it does, no key moves it."""
    expect(card(page, name)).to_have_attribute("data-shown", re.compile(r"^\d+$"))
    return page.get_by_role("slider", name=f"Step of {name}")


def test_every_kind_is_shown_at_its_newest_step(media: Page) -> None:
    expect(card(media, "samples/digit")).to_contain_text("a ramp at 40")
    expect(card(media, "samples/digit")).to_contain_text("28 × 28")
    expect(seen(media, "weights/head").locator("canvas")).to_be_visible()
    expect(card(media, "weights/head")).to_contain_text("2k values, from 1.")
    expect(seen(media, "answers/table").get_by_role("row")).to_have_count(201)
    expect(card(media, "answers/table")).to_contain_text(f"200 of {NUM_ROWS} rows")
    expect(seen(media, "story").locator(".media-text")).to_contain_text("Step 40: the little engine")
    for name in ("samples/digit", "weights/head", "answers/table", "story"):
        expect(seen(media, name)).to_contain_text("step 40,")


def test_a_page_is_shown_in_a_frame_in_which_nothing_runs(media: Page) -> None:
    frame = seen(media, "report").locator("iframe")
    expect(frame).to_have_attribute("sandbox", "")
    expect(frame.content_frame.get_by_role("heading")).to_have_text("All digits")
    expect(frame.content_frame.locator("p")).to_have_count(9_000)  # the whole, and no beginning


def test_the_slider_goes_through_the_steps_by_keyboard(media: Page) -> None:
    digit = card(media, "samples/digit")
    slider(media, "samples/digit").press("ArrowLeft")
    expect(digit).to_contain_text("a ramp at 30")
    slider(media, "samples/digit").press("Home")
    expect(digit).to_contain_text("a ramp at 0")
    expect(slider(media, "samples/digit")).to_have_attribute("aria-valuetext", "step 0")
    expect(seen(media, "answers/table")).to_contain_text("step 40,")
    digit.get_by_role("button", name="Newest step").press("Enter")
    expect(digit).to_contain_text("a ramp at 40")
    expect(digit.get_by_role("button", name="Next step")).to_be_disabled()


def test_an_image_arrives_as_it_was_logged(media: Page) -> None:
    slider(media, "samples/digit").press("Home")
    expect(card(media, "samples/digit")).to_contain_text("a ramp at 0")
    pixels = (
        card(media, "samples/digit")
        .locator("img")
        .evaluate(
            """async (image) => {
            await image.decode();
            const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
            const pen = canvas.getContext("2d", {willReadFrequently: true});
            pen.drawImage(image, 0, 0);
            return [[0, 0], [27, 0], [3, 20]].map(([x, y]) => pen.getImageData(x, y, 1, 1).data[0]);
        }"""
        )
    )
    assert pixels == [0, 27 * 4, 23 * 4]


def test_a_sound_is_played_under_the_policy_of_the_page(media: Page) -> None:
    speech = seen(media, "speech")
    expect(speech).to_contain_text("0.50 s, 8,000 Hz")
    expect(speech.locator("bdi")).to_contain_text(HOSTILE)
    ready = """async (player) => {
        await (player.duration ? null : new Promise((done) => (player.onloadedmetadata = done)));
        player.currentTime = 0.25;
        await new Promise((done) => (player.onseeked = done));
        return [player.duration, player.currentTime];
    }"""
    assert speech.locator("audio").evaluate(ready) == [0.5, 0.25]


RECORD = """async () => {
    const canvas = Object.assign(document.createElement("canvas"), {width: 32, height: 24});
    const pen = canvas.getContext("2d");
    const recorder = new MediaRecorder(canvas.captureStream(30), {mimeType: "video/webm"});
    const parts = [];
    recorder.ondataavailable = ({data}) => parts.push(data);
    recorder.start();
    for (let at = 0; at < 12; at += 1) {
        pen.fillStyle = `rgb(${20 * at}, 0, 0)`;
        pen.fillRect(0, 0, 32, 24);
        await new Promise((done) => setTimeout(done, 40));
    }
    const over = new Promise((done) => (recorder.onstop = done));
    recorder.stop();
    await over;
    const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
    return btoa(String.fromCharCode(...bytes));
}"""
WALK = """
import base64, trainyard
run = trainyard.init("walk")
run.log({"walk": trainyard.Video(base64.b64decode("%s"), caption="twelve reds")}, step=3)
run.finish()
"""


def test_a_video_is_played_under_the_policy_of_the_page(sit: Sit, running_trainyard: Up, tmp_path: Path) -> None:
    seat = sit()
    recorded = seat.go("/runs/").evaluate(RECORD)
    page = seat.go(f"/runs/{told(running_trainyard, tmp_path, WALK % recorded, 'walk')}/media/")
    walk = seen(page, "walk")
    expect(walk).to_contain_text("webm")
    expect(walk.locator("bdi")).to_contain_text("twelve reds")
    ready = "async (player) => { await player.play(); return [player.videoWidth, player.videoHeight] }"
    assert walk.locator("video").evaluate(ready) == [32, 24]


def test_all_cards_go_to_the_same_step_and_the_address_says_so(media: Page) -> None:
    media.get_by_role("button", name="Same step").click()
    everything = media.get_by_role("slider", name="Step of all cards")
    everything.focus()
    media.keyboard.press("Home")
    media.keyboard.press("ArrowRight")  # 0, 7, 10 and so on: the steps of all
    for name in ("samples/digit", "weights/head", "answers/table"):
        expect(seen(media, name)).to_contain_text("step 0,")
    media.keyboard.press("ArrowRight")
    expect(card(media, "samples/digit")).to_contain_text("a ramp at 10")
    assert media.url.endswith("/media/?step=10")
    media.reload()
    expect(card(media, "samples/digit")).to_contain_text("a ramp at 10")
    slider(media, "samples/digit").press("ArrowRight")
    expect(seen(media, "answers/table")).to_contain_text("step 20,")
    media.get_by_role("button", name="Same step").click()
    expect(seen(media, "answers/table")).to_contain_text("step 40,")
    assert media.url.endswith("/media/")


def test_a_card_without_anything_at_the_common_step_says_so(media: Page) -> None:
    media.get_by_role("button", name="Same step").click()
    media.get_by_role("slider", name="Step of all cards").press("Home")
    hostile = seen(media, "hostile/")
    expect(hostile).to_contain_text("nothing by then; the first is at step 7")
    expect(hostile.locator(".media-text")).to_be_hidden()


def test_histograms_over_steps_are_read_by_keyboard(media: Page) -> None:
    head = seen(media, "weights/head")
    plot = head.locator("canvas")
    expect(plot).to_have_attribute("role", "img")
    expect(plot).not_to_have_attribute("aria-busy", "true")
    plot.press("Home")
    expect(head).to_contain_text("step 0:")
    plot.press("ArrowRight")
    expect(head).to_contain_text("step 10:")
    plot.press("Enter")
    expect(head.locator(".media-at")).to_contain_text("step 10,")
    expect(head).to_have_attribute("data-shown", "10")
    head.get_by_role("button", name="one step").press("Enter")
    expect(plot).to_have_attribute("aria-label", "Histogram of weights/head; the arrow keys read it")
    read = set()
    plot.press("Home")
    for _ in range(32):
        read.add(head.locator(".media-caption").inner_text())
        plot.press("ArrowRight")
    assert len(read) == 32, "each bin"
    assert sum(float(words.split(": ")[-1].split(" value")[0]) for words in read) == 2_000


def test_a_step_picked_before_the_card_knows_its_steps_is_gone_to(seat: Seat, logged: str) -> None:
    held: list[Route] = []
    seat.page.route(re.compile(r"/steps\?name=weights"), lambda route: held.append(route))
    head = seen(seat.go(f"/runs/{logged}/media/"), "weights/head")
    plot = head.locator("canvas")
    expect(plot).not_to_have_attribute("aria-busy", "true")
    plot.press("Home")
    plot.press("ArrowRight")
    expect(head).to_contain_text("step 10:")
    plot.press("Enter")
    for route in held:
        route.continue_()
    expect(head.locator(".media-at")).to_contain_text("step 10,")
    expect(head).to_have_attribute("data-shown", "10")


def test_full_screen_is_left_as_it_was_entered_by_keyboard(media: Page) -> None:
    digit = card(media, "samples/digit")
    digit.get_by_role("button", name="Full screen").press("Enter")
    full = media.get_by_role("dialog", name="samples/digit")
    expect(full.get_by_role("heading", name="samples/digit")).to_be_visible()
    media.keyboard.press("ArrowLeft")
    expect(full).to_contain_text("a ramp at 30")
    media.keyboard.press("+")
    expect(full.locator(".is-zoomed")).to_be_visible()
    media.keyboard.press("0")
    expect(full.locator(".is-zoomed")).to_have_count(0)
    media.keyboard.press("Escape")
    expect(full).to_be_hidden()
    expect(digit.get_by_role("button", name="Full screen")).to_be_focused()
    expect(digit).to_contain_text("a ramp at 30")


def test_a_table_is_sorted_and_saved_whole(media: Page, tmp_path: Path) -> None:
    table = card(media, "answers/table")
    head = table.get_by_role("columnheader", name="score")
    head.get_by_role("button").press("Enter")
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(table.get_by_role("row").nth(1)).to_contain_text(f"prompt {NUM_ROWS - 1}")
    seen(media, "story")
    expect(table.get_by_role("row")).to_have_count(0)
    seen(media, "answers/table")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(table.get_by_role("row").nth(1)).to_contain_text(f"prompt {NUM_ROWS - 1}")
    with media.expect_download() as download:
        table.get_by_role("button", name="Download").press("Enter")
    assert download.value.suggested_filename == "answers-table-step-40.csv"
    download.value.save_as(tmp_path / "table.csv")
    rows = list(csv.reader((tmp_path / "table.csv").read_text().splitlines()))
    assert rows[0] == ["prompt", "score", "is right", "place"]
    assert rows[1] == ["'=1+1", "-40", "true", "0"]
    assert rows[2] == ["prompt 1", "-39.875", "false", ""]
    assert len(rows) == 1 + NUM_ROWS


def test_an_image_is_saved_as_it_was_logged(media: Page, tmp_path: Path) -> None:
    with media.expect_download() as download:
        card(media, "samples/digit").get_by_role("button", name="Download").click()
    assert download.value.suggested_filename.endswith(".png")
    download.value.save_as(tmp_path / "image.png")
    assert (tmp_path / "image.png").read_bytes().startswith(b"\x89PNG")


def test_what_scripts_log_stays_text(media: Page) -> None:
    hostile = seen(media, "hostile/")
    expect(hostile.locator(".media-text")).to_have_text(HOSTILE)
    expect(hostile.locator("h3")).to_contain_text("<img src=x")
    expect(hostile.locator(".media-labels")).to_have_text(f"who {HOSTILE}")
    large = seen(media, "samples/large")
    expect(large.locator("bdi")).to_contain_text(HOSTILE)
    expect(media.locator("main img:not(.media-image img), main script")).to_have_count(0)
    expect(media).to_have_title("album, succeeded · Trainyard")


def test_words_filter_names_and_folded_sections_stay_folded(media: Page) -> None:
    media.keyboard.press("/")
    media.keyboard.type("samp DIG")
    expect(media.get_by_role("article")).to_have_count(1)
    expect(card(media, "samples/digit")).to_be_visible()
    assert media.url.endswith("?filter=samp+DIG")
    media.get_by_label("Filter media by words of their names").fill("nothing of the kind")
    expect(media.get_by_text("No name fits the filter.")).to_be_visible()
    media.get_by_label("Filter media by words of their names").fill("")
    media.locator("summary", has_text="samples").press("Enter")
    expect(card(media, "samples/digit")).to_be_hidden()
    media.reload()
    expect(card(media, "answers/table").locator("table")).to_be_visible()
    expect(card(media, "samples/digit")).to_be_hidden()
    media.locator("summary", has_text="samples").press("Enter")
    expect(card(media, "samples/digit").locator("img")).to_be_visible()


def test_it_shuts_nobody_out(sit: Sit, logged: str) -> None:
    seat = sit()
    media = seat.go(f"/runs/{logged}/media/?step=20")
    card(media, "answers/table").get_by_role("row").nth(1).wait_for()
    assert seat.watch.unexpected() == []
    seat.watch.expect("")  # from here on the console has what axe does
    media.evaluate(AXE.read_text())
    assert barriers(media) == []
    media.emulate_media(color_scheme="dark")
    assert barriers(media, runOnly=["color-contrast"]) == []
    card(media, "samples/digit").get_by_role("button", name="Full screen").click()
    expect(media.get_by_role("dialog", name="samples/digit")).to_be_visible()
    assert barriers(media) == []


def test_it_fits_a_phone(sit: Sit, logged: str) -> None:
    page = sit(viewport=PHONE).go(f"/runs/{logged}/media/?step=")
    for name in ("hostile/", "answers/table", "weights/head"):
        expect(seen(page, name).locator(".media-body > *")).to_be_visible()
    assert page.evaluate(TOO_WIDE) == []
    card(page, "weights/head").get_by_role("button", name="Full screen").click()
    full = page.get_by_role("dialog", name="weights/head").bounding_box() or {}
    assert full["x"] >= 0
    assert full["x"] + full["width"] <= page.evaluate("document.documentElement.clientWidth")


def test_what_could_not_be_loaded_is_said_and_tried_again(sit: Sit, logged: str) -> None:
    sit()  # the one whose cache may have it from other tests
    seat = sit()
    media = seat.go(f"/runs/{logged}/media/")
    seat.watch.expect("net::ERR_INTERNET_DISCONNECTED", "WebSocket")
    table = seen(media, "answers/table")
    expect(table).to_contain_text("step 40,")
    media.context.set_offline(True)
    slider(media, "answers/table").press("Home")  # not fetched in advance
    expect(table).to_contain_text("This could not be loaded; it is tried again.")
    media.context.set_offline(False)
    expect(table.get_by_role("row").nth(2)).to_contain_text("prompt 1")
    expect(table).to_contain_text(f"200 of {NUM_ROWS} rows drawn")


def test_the_keys_of_the_page_are_told(media: Page) -> None:
    media.keyboard.press("?")
    expect(media.get_by_role("dialog", name="Keys")).to_contain_text("In full screen: neighbouring step")


@pytest.fixture
def live(office: Yard, tmp_path: Path, open_folder: Path) -> Iterator[tuple[str, Path]]:
    """The id of a run that is trained, and the file that says how many steps it may log."""
    code, wanted = tmp_path / "code", open_folder / "wanted"
    code.mkdir()
    (code / "train.py").write_text(LIVE)
    wanted.write_text("1")
    wanted.chmod(0o644)
    stored = office.http.post("/bundles", content=packed(code)).json()
    task = {"script": "train.py", "arguments": [str(wanted)], "code": {"sha256": stored["sha256"]}}
    run_id = office.submit({"name": "growing", "resources": {"nodes": 1}, "restarts": {"max": 0}, "task": task})
    yield run_id, wanted
    office.post(f"/runs/{run_id}/stop")
    office.wait_for_end(run_id)


def set_limit(wanted: Path, steps: int) -> None:
    """Change the file at once: the run reads it all the time, and an empty one ends it."""
    new = wanted.with_suffix(".new")
    new.write_text(str(steps))
    new.chmod(0o644)
    new.replace(wanted)


def test_a_live_run_grows_until_somebody_looks_back(seat: Seat, office: Yard, live: tuple[str, Path]) -> None:
    run_id, wanted = live
    page = seat.go(f"/runs/{run_id}/media/")
    digit, table = card(page, "samples/digit"), card(page, "answers/table")
    expect(digit).to_contain_text("a ramp at 10")
    set_limit(wanted, 3)
    expect(digit).to_contain_text("a ramp at 30")
    slider(page, "samples/digit").press("ArrowLeft")
    expect(digit).to_contain_text("a ramp at 20")
    set_limit(wanted, 4)
    expect(table).to_contain_text("step 40,")
    expect(digit).to_contain_text("a ramp at 20")


def test_a_run_that_is_deleted_elsewhere_is_said_to_be_gone(
    seat: Seat, office: Yard, running_trainyard: Up, tmp_path: Path
) -> None:
    run_id = album(running_trainyard, tmp_path)
    page = seat.go(f"/runs/{run_id}/media/")
    expect(card(page, "samples/digit")).to_contain_text("a ramp at 40")
    seat.watch.expect("404", "4404")
    assert office.http.delete(f"/runs/{run_id}").status_code in (200, 204)
    page.get_by_label("older attempts").check()
    expect(page.get_by_text("This run is no longer here")).to_be_visible()
    expect(card(page, "samples/digit")).to_contain_text("This is no longer here.")
    assert STEPS[-1] == 40

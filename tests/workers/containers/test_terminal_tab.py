"""The Terminal tab in Chromium, beside a rank that runs in a container. ``make containers`` runs this."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import packed, sign_in_link, sitting
from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Yard
from tests.workers.containers.podman_machine import Machine

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

SCRIPT = """
import pathlib, time
pathlib.Path("/tmp/of-the-rank").write_text("left by the rank")
print("it waits", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def trainyard(machine: Machine) -> Iterator[Yard]:
    with short_folder("ty-up-") as folder:
        up = Up(new_home(folder), NODES="1", **machine.settings)
        try:
            with Yard(up.wait_until_ready()) as yard:
                yield yard
        finally:
            up.close()


def test_what_is_typed_is_run_in_the_ranks_container(trainyard: Yard, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    stored = trainyard.http.post("/bundles", content=packed(tmp_path))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "code": {"sha256": stored.json()["sha256"]}}
    own = {"environment": {"container": "localhost/python:1"}, "resources": {"nodes": 1}}
    run_id = trainyard.submit({"name": "contained", "task": task, **own})
    trainyard.wait_for(
        lambda: "it waits" in trainyard.http.get(f"/runs/{run_id}/logs").text, lambda: trainyard.sentence(run_id)
    )
    with sitting(browser, trainyard.up.url) as seat:
        seat.page.goto(sign_in_link(trainyard.up))
        page = seat.go(f"/runs/{run_id}/terminal/")
        page.get_by_role("button", name="Open terminal").click()
        screen = page.locator(".xterm-rows")
        expect(screen).to_contain_text("[rank 0] code$", timeout=60_000)
        page.keyboard.type("cat /etc/marker; echo; cat /tmp/of-the-rank; echo\n")
        expect(screen).to_contain_text("image 1")
        expect(screen).to_contain_text("left by the rank")
        page.get_by_role("button", name="End session").click()
        expect(page.locator("[data-sentence]")).to_have_text("The session was ended by its person.")
    trainyard.post(f"/runs/{run_id}/stop")
    assert trainyard.wait_for_end(run_id)["status"] == "CANCELLED"

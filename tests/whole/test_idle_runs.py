"""A run that really idles, on a cluster that stops such runs: it is marked, stopped with a save, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import packed
from tests.whole.runs import Document, Yard, points

STEPS, HALF = 60, 30
SCRIPT = f"""
import json, os, pathlib, signal, sys, time, trainyard
kept = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"]) / "state.json"
step, x = json.loads(kept.read_text()) if kept.exists() else (0, 20261128)
is_new = step == 0
def save(*_):
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([step, x]))
    print(f"saved step {{step}}", flush=True)
    run.finish()
    os._exit(0)
run = trainyard.init()
signal.signal(signal.SIGTERM, save)
while step < {STEPS}:
    step, x = step + 1, (x * 1103515245 + 12345) % 2**31
    run.log({{"train/loss": x / 2**31}}, step=step)
    if is_new and step == {HALF} and "--waits" in sys.argv:
        while True:
            time.sleep(1)
"""


def script(yard: Yard, folder: Path, name: str, *arguments: str) -> Document:
    (folder / "train.py").write_text(SCRIPT)
    stored = yard.http.post("/bundles", content=packed(folder)).json()
    task = {"script": "train.py", "arguments": list(arguments), "code": {"sha256": stored["sha256"]}}
    return {"name": name, "resources": {"nodes": 1}, "limits": {"grace": "30s"}, "task": task}


@pytest.mark.timeout(300)
def test_a_run_that_idles_is_stopped_with_a_save_and_goes_on_to_the_same_losses(yard: Yard, tmp_path: Path) -> None:
    before = yard.get("/clusters/local")
    alone = yard.submit(script(yard, tmp_path, "alone"))
    assert yard.wait_for_end(alone)["status"] == "SUCCEEDED"
    stops = {"idle_action": "stop", "idle_below": 5, "idle_minutes": 0.2}
    yard.http.patch("/clusters/local", json=stops).raise_for_status()
    try:
        run = yard.submit(script(yard, tmp_path, "idler", "--waits"))
        ended = yard.wait_for_end(run)
        assert (ended["status"], ended["reason"]["code"]) == ("CANCELLED", "idle"), ended["reason"]
        first = "Stopped by the rule of cluster local for idle runs, since its CPU slot was used "
        assert ended["reason"]["sentence"].startswith(first) and " over the last 12 s: " in ended["reason"]["sentence"]
        events = yard.get(f"/runs/{run}/events", limit=200)["items"]
        (mark,) = [one for one in events if one["code"] == "idle" and "is stopped at" in one["sentence"]]
        (stop,) = [one for one in events if one["code"] == "stopping"]
        assert mark["at"] < stop["at"]
        assert any("saved step 30" in one["text"] for one in yard.get(f"/runs/{run}/logs", limit=100)["items"])
        (act,) = [one for one in yard.get("/audit", limit=200)["items"] if one["actor"] == "cluster local"]
        assert (act["action"], act["object"]) == ("runs.stop", f"run {run}")
        yard.post(f"/runs/{run}/restart")
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED"
        assert points(yard, run, "train/loss") == points(yard, alone, "train/loss")
    finally:
        yard.http.patch("/clusters/local", json={name: before[name] for name in stops}).raise_for_status()

"""A run with media of every kind, as a script logs them outside of Trainyard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.up_process import OURS, ROOT, Up
from tests.whole.test_command_line import trainyard

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
STEPS = (0, 10, 20, 30, 40)
NUM_ROWS = 300

# Everything is known: at each step the image has its own brightness, the text its own words, the table its own scores.
LOG = (
    f"""
import numpy, trainyard
HOSTILE, NUM_ROWS, STEPS = {HOSTILE!r}, {NUM_ROWS}, {STEPS}
"""
    + r"""
def log(run, step):
    y, x = numpy.mgrid[0:28, 0:28]
    ramp = ((x + y) * 4 + step).astype("uint8")
    large = numpy.stack([numpy.full((300, 600), value, "uint8") for value in (200, step, 90)], axis=-1)
    values = numpy.random.default_rng(step).normal(step / 20, 0.2, 2_000)
    prompts = ["=1+1", *(f"prompt {at}" for at in range(1, NUM_ROWS))]
    rows = [[prompt, at / 8 - step, at % 2 == 0, None if at % 5 else at] for at, prompt in enumerate(prompts)]
    media = {
        "samples/digit": trainyard.Image(ramp, caption=f"a ramp at {step}"),
        "samples/large": trainyard.Image(large, caption=HOSTILE + " \u0645\u0631\u062d\u0628\u0627"),
        "weights/head": trainyard.Histogram(values, bins=32),
        "story": trainyard.Text(f"Step {step}: the little engine {HOSTILE} \u0645\u0631\u062d\u0628\u0627\n" * 20),
        "speech": trainyard.Audio(numpy.sin(numpy.arange(4_000) * (0.1 + step / 100)), 8_000, caption=HOSTILE),
        "answers/table": trainyard.Table(["prompt", "score", "is right", "place"], rows),
    }
    run.log({**media, "train/loss": 4 / (1 + step)}, step=step)
"""
)
SCRIPT = (
    LOG
    + r"""
run = trainyard.init("album")
for step in STEPS:
    log(run, step)
run.log({"hostile/" + HOSTILE + "\u202e" + "x" * 300: trainyard.Text(HOSTILE)}, step=7, labels={"who": HOSTILE})
run.log({"report": trainyard.Html("<h1>All digits</h1>" + "<p>one more line</p>" * 9_000)}, step=40)
run.finish()
"""
)
# Until its end is asked for, it logs a further step whenever the file in its folder says so.
LIVE = (
    LOG
    + """
import pathlib, sys, time
run = trainyard.init()
logged, wanted = 0, pathlib.Path(sys.argv[1])
while True:
    for logged in range(logged + 1, int(wanted.read_text()) + 1):
        log(run, logged * 10)
    time.sleep(0.1)
"""
)


def album(up: Up, folder: Path) -> str:
    """Return the id of a run with known media of every kind."""
    return told(up, folder, SCRIPT)


def told(up: Up, folder: Path, script: str, *arguments: str) -> str:
    """Run the script in the folder, send what it logged, and return the run's id."""
    (folder / "script.py").write_text(script)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "script.py", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "trainyard" not in done.stderr, done.stderr
    sent = trainyard(up, "sync", str(folder / "trainyard-spool"), "--json")
    assert sent.returncode == 0, sent.stderr
    [item] = json.loads(sent.stdout)["items"]
    return str(item["run"]["id"])

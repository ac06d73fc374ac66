"""From the end of a trial's last step to the end of the next one's first step, where the next one takes its place."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stack import Stack
from trainyard.bundle import pack

TRIAL = Path(__file__).parent / "trial.py"
STEPS = 40
PARALLEL = 2
LIMIT_S = 300.0
PEERS = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
PACKAGES = sysconfig.get_path("purelib")

Span = tuple[float, float]  # when the first and the last step of a trial ended


def gaps(spans: Sequence[Span], parallel: int = PARALLEL) -> list[float]:
    """Return for each trial but the first ``parallel`` how long after a free place its first step ended. A trial takes
    the place that was freed first of those that nobody has taken."""
    ordered = sorted(spans)
    free: list[float] = []
    found = []
    waiting = sorted(end for _, end in ordered)
    for place, (first, _) in enumerate(ordered):
        if place < parallel:
            continue
        free += [end for end in waiting if end < first]
        waiting = [end for end in waiting if end >= first]
        if free:
            found.append(first - free.pop(0))
    return found


def ours(stack: Stack, trials: int) -> list[Span]:
    """Run a sweep on the nodes of the stack. Its first trials have warmed them up."""
    data, sha256, _ = pack(TRIAL)
    stack.bundle(data)
    document = {
        "name": "overhead",
        "base": {
            "name": "trial",
            "task": {"script": TRIAL.name, "code": {"sha256": sha256}, "arguments": ["--steps", str(STEPS)]},
        },
        "space": {
            "task.arguments.--lr": {"low": 1e-3, "high": 0.5, "log": True},
            "task.arguments.--width": {"low": 16, "high": 64, "int": True},
        },
        "objective": {"metric": "loss", "direction": "minimize"},
        "budget": {"trials": trials, "parallel": PARALLEL},
        "sampler": "random",
    }
    answer = stack.http.post("/api/v1/sweeps", json=document)
    if answer.status_code != 201:
        raise SystemExit(f"the sweep was refused: {answer.text}")
    sweep = str(answer.json()["id"])
    deadline = time.monotonic() + LIMIT_S
    while stack.get(f"/sweeps/{sweep}")["status"] in ("RUNNING", "STOPPING"):
        if time.monotonic() > deadline:
            raise SystemExit(f"the sweep was not over after {LIMIT_S:g} s: {stack.get(f'/sweeps/{sweep}')}")
        time.sleep(0.2)
    rows = stack.get(f"/sweeps/{sweep}")["trials"]
    spans = []
    for row in rows:
        if row["run"] is not None and row["state"] == "COMPLETE":
            times = stack.column(row["run"], "loss", "time")
            spans.append((times[0], times[-1]))
    return spans


def optuna_processes(trials: int) -> list[Span]:
    """Run as many trials by Optuna, each a process of its own, two at a time."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spans: list[Span] = []

    def objective(trial: optuna.Trial) -> float:
        rate, width = trial.suggest_float("lr", 1e-3, 0.5, log=True), trial.suggest_int("width", 16, 64)
        words = [sys.executable, str(TRIAL), "--lr", str(rate), "--width", str(width), "--steps", str(STEPS)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT_S)
        value, first, last = json.loads(done.stdout.splitlines()[-1])
        spans.append((first, last))
        return float(value)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=trials, n_jobs=PARALLEL)
    return spans


def ray_tune(trials: int, folder: Path) -> list[Span] | None:
    """Run as many by Ray Tune, two at a time; None where it is not installed among the peers."""
    if not PEERS.exists() or subprocess.run([PEERS, "-c", "import ray.tune"], capture_output=True).returncode:
        return None
    script = Path(__file__).with_name("ray_tune.py")
    answer = folder / "ray.json"
    words = [str(PEERS), str(script), str(TRIAL), str(trials), str(PARALLEL), str(STEPS), str(answer), PACKAGES]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        print(done.stderr[-2_000:], file=sys.stderr)
        return None
    return [(first, last) for first, last in json.loads(answer.read_text())]

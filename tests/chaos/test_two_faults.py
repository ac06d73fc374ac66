"""Two faults at once, drawn from a seed: the second comes while the first is being dealt with. Afterwards the losses
are those of a run without faults, bit for bit; no point is lost or doubled; the cause of the first attempt that failed
is the first fault; the times of the run add up; and no status came and went more than twice. ``make chaos`` draws ten
histories for each of its SEEDS."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.faults.pairs import FAULTS, Fault, Stage, resume
from tests.chaos.own_nodes import in_contact, trainyard_in
from tests.chaos.scene import NUM_SEEDS, ROWS, Row, Scene
from tests.disks import disk
from tests.servers import short_folder
from tests.up_process import wait_until
from tests.whole.runs import Document, Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(400)]
STEPS = 900
LONGEST_GAP_S = 5.0
PASSES_AFTER_S = 8.0  # what stands still or is full, where that is nothing a run has to end for
MOST_TIMES = 2  # the same status or event within one attempt
ADDS_UP_WITHIN_S = 0.5
AT_ONCE_S = 0.1  # of two faults so near to each other either may be seen first
NODES = ("steady", "jumping", "spare")
NUM_HISTORIES = 10 * NUM_SEEDS
HEAD = "| seed | faults | attempts | curve equal | lost | doubled | first cause | times add up | flaps |"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    clock = tmp_path_factory.mktemp("clock") / "clock"
    jumping = {"CHAOS_CLOCK": str(clock), "PYTHONPATH": str(Path(__file__).parent / "clock")}
    with short_folder("ty-two-") as folder, disk(folder / "d", mb=900) as small, trainyard_in(small) as house:
        up, yard, nodes = house
        nodes.start("steady")
        nodes.start("jumping", environment=jumping)
        nodes.start("spare")
        nodes.wait_for_contact(*NODES)
        yield Stage(Scene(up, yard, 0), nodes, NODES, small, clock)


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> dict[int, float]:
    """The loss of each step of the run without faults."""
    run = submit(stage.scene)
    assert stage.scene.yard.wait_for_end(run)["status"] == "SUCCEEDED"
    print(f"\n{HEAD}", flush=True)
    return {step: only(values) for step, values in stage.scene.yard.losses(run).items()}


@pytest.mark.parametrize("number", range(NUM_HISTORIES))
def test_after_two_faults_at_once_the_run_is_what_it_would_have_been(
    stage: Stage, undisturbed: dict[int, float], request: pytest.FixtureRequest, number: int
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000))) + number
    choice = random.Random(seed)
    first, second = choice.sample(FAULTS, 2)
    gap_s = stage.gap_s = choice.random() * LONGEST_GAP_S
    name = f"{first.name}, {gap_s:.1f} s later {second.name}"
    print(f"\nCHAOS_SEED={seed} {name}", flush=True)
    begin(stage)
    stage.scene = Scene(stage.scene.up, stage.scene.yard, seed)
    stage.run = submit(stage.scene)
    stage.scene.wait_for_a_step(stage.run, 30, 250)
    first.happen(stage, choice)
    time.sleep(gap_s)
    second.happen(stage, choice)
    end(stage)
    run = stage.scene.yard.wait_for_end(stage.run, 300)
    row, problems = judge(stage, run, (first, second), undisturbed, name)
    request.config.stash.setdefault(ROWS, []).append(row)
    if problems:
        stage.scene.print_history(stage.run)
    stage.scene.yard.http.delete(f"/runs/{stage.run}")
    assert not problems, f"CHAOS_SEED={seed} {name}: {problems}"


def submit(scene: Scene) -> str:
    return scene.submit(steps=STEPS, hangs={"after": "5s"}, resources={"nodes": 2, "processes_per_node": 1})


def begin(stage: Stage) -> None:
    stage.undo.close()  # of a history that failed half way
    stage.undo, stage.is_stopped, stage.is_paused, stage.compared_until = ExitStack(), False, False, None
    stage.scene.yard.stop_what_is_left()
    wait_until(lambda: set(NODES) <= in_contact(stage.scene.yard), "every node is there", patience_s=120)


def end(stage: Stage) -> None:
    """Have passed what passes, and start again what a service manager would."""
    deadline = time.monotonic() + PASSES_AFTER_S
    while time.monotonic() < deadline:
        stage.nodes.start_the_dead()
        time.sleep(0.5)
    stage.undo.close()
    if stage.is_paused:
        resume(stage)


def judge(
    stage: Stage, run: Document, faults: tuple[Fault, Fault], undisturbed: dict[int, float], name: str
) -> tuple[Row, list[str]]:
    scene = stage.scene
    problems: list[str] = []
    status = "CANCELLED" if stage.is_stopped else "SUCCEEDED"
    # A stop reaches nobody before these go on: the run may be through by then.
    may_finish = any(fault.name in ("valkey stopped", "control stopped") for fault in faults)
    if run["status"] != status and not (may_finish and run["status"] == "SUCCEEDED"):
        problems.append(f"it is {run['status']}: {run['reason']['sentence']}")
    scene.check_status(stage.run)
    losses = scene.yard.losses(stage.run)
    until = min(max(losses, default=0), stage.compared_until or STEPS)
    differing = [step for step in range(1, until + 1) if losses.get(step, set()) - {undisturbed[step]}]
    if differing:
        problems.append(f"{len(differing)} losses differ, from step {differing[0]} on")
    last = STEPS if run["status"] == "SUCCEEDED" else max(losses, default=0)
    lost = len(set(range(1, last + 1)) - losses.keys())
    doubled = num_doubled(scene.yard, stage.run)
    problems += [f"{lost} steps are lost"] * bool(lost) + [f"{doubled} points are doubled"] * bool(doubled)
    times, blame, flapping = time_problems(run), blame_problems(stage, faults), flaps(scene, stage.run)
    problems += times + blame + flapping
    misblamed = len(blame)
    cause = next(iter(causes_of(scene, stage.run)), {"class": "none"})["class"]
    columns = (scene.seed, name, run["attempt"], not differing, lost, doubled, cause, not times, flapping)
    print("|", *(f"{one} |" for one in columns), flush=True)
    return Row(name, scene.seed, run["attempt"] or 0, len(losses), lost, doubled, scene.num_wrong, misblamed), problems


def num_doubled(yard: Yard, run: str) -> int:
    series = yard.get(f"/runs/{run}/series/data", name="train/loss", points=10_000)["series"]
    steps = Counter(step for one in series for step in one["step"])
    return sum(steps.values()) - len(steps)


def time_problems(run: Document) -> list[str]:
    parts = {key: value for key, value in run["time"].items() if key.endswith("_s") and key != "total_s"}
    total = run["time"]["total_s"]
    off = sum(parts.values()) - total
    return [f"the times add up to {total + off:.1f} s of {total:.1f} s: {parts}"] if abs(off) > ADDS_UP_WITHIN_S else []


def blame_problems(stage: Stage, faults: tuple[Fault, Fault]) -> list[str]:
    harmful = [fault for fault in faults if fault.blames]
    causes = causes_of(stage.scene, stage.run)
    if not causes:
        return []
    either = harmful and (harmful[0].is_late or stage.gap_s < AT_ONCE_S)
    blamed = harmful if either else harmful[:1]
    if causes[0]["class"] in {name for fault in blamed for name in fault.blames}:
        return []
    return [f"blamed {causes[0]['class']} ({causes[0]['sentence']}), not {[fault.name for fault in blamed]}"]


def causes_of(scene: Scene, run: str) -> list[Document]:
    return [attempt["cause"] for attempt in scene.yard.attempts(run) if attempt["cause"] is not None]


def flaps(scene: Scene, run: str) -> list[str]:
    codes = Counter(
        (event["code"], event.get("attempt"))
        for event in scene.events(run)
        if not event["code"].startswith(("checkpoint", "memory"))  # each is about another one
    )
    return [f"{code} came {count} times" for (code, _), count in codes.items() if count > MOST_TIMES]


def only(values: set[float]) -> float:
    assert len(values) == 1
    return next(iter(values))

"""A sweep of the digits recipe on two nodes, with control, or ingest, killed in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.whole.runs import FINAL, Document, Yard
from tests.whole.test_command_line import trainyard

TRIALS = 12
FEW = 6
SEED = 7


@pytest.fixture
def earlier(yard: Yard) -> set[str]:
    """The runs of such sweeps that were before."""
    return tagged(yard)


@pytest.fixture
def sweep(yard: Yard, earlier: set[str]) -> Iterator[str]:
    """The id of the example's sweep, started from the terminal."""
    started = trainyard(yard.up, "sweep", "examples/sweep-digits.yaml")
    assert started.returncode == 0, started.stderr
    sweep_id = started.stdout.strip()
    yield sweep_id
    stop(yard, sweep_id)


def tagged(yard: Yard) -> set[str]:
    return {row["id"] for row in yard.get("/runs", tag="sweep:digits-search", limit=200)["items"]}


def stop(yard: Yard, sweep: str) -> None:
    if yard.get(f"/sweeps/{sweep}")["status"] not in FINAL:
        yard.post(f"/sweeps/{sweep}/stop")


def ended(yard: Yard, sweep: str) -> list[Document]:
    return [one for one in yard.get(f"/sweeps/{sweep}")["trials"] if one["state"] not in ("WAITING", "RUNNING")]


def kill_on_the_way(yard: Yard, sweep: str, process: str, after: tuple[int, ...]) -> None:
    """Kill the process each time that so many trials have ended."""
    for number in after:
        yard.wait_for(lambda number=number: len(ended(yard, sweep)) >= number, f"{number} trials never ended", 240)  # type: ignore[misc]
        yard.kill_process(process)


def succeeded(yard: Yard, sweep: str) -> Document:
    yard.wait_for(lambda: yard.get(f"/sweeps/{sweep}")["status"] in FINAL, lambda: yard.get(f"/sweeps/{sweep}"), 400)
    found: Document = yard.get(f"/sweeps/{sweep}")
    assert found["status"] == "SUCCEEDED", found["reason"]
    return found


@pytest.mark.extended
@pytest.mark.parametrize("process", ["control", "ingest"])
def test_a_process_killed_in_mid_sweep_loses_and_doubles_no_trial(
    yard: Yard, sweep: str, earlier: set[str], process: str
) -> None:
    kill_on_the_way(yard, sweep, process, (1, 4, 8))
    found = succeeded(yard, sweep)
    trials = found["trials"]
    assert [one["number"] for one in trials] == list(range(TRIALS))
    runs = {one["run"]: yard.run(one["run"]) for one in trials}
    assert len(runs) == TRIALS and tagged(yard) - earlier == runs.keys(), "each trial has one run"
    by_state = {state: [one for one in trials if one["state"] == state] for state in ("COMPLETE", "PRUNED")}
    assert sum(map(len, by_state.values())) == TRIALS
    assert by_state["COMPLETE"] and by_state["PRUNED"], "ASHA stops some and lets others finish"
    for one in by_state["PRUNED"]:
        assert one["pruned_at_step"] >= 50 and one["reason"].startswith("Stopped at step")
        yard.wait_for_end(one["run"])
        kept = [row["step"] for row in yard.get(f"/runs/{one['run']}/checkpoints")["items"]]
        assert kept and max(kept) >= 50, "a pruned trial keeps its checkpoint"
    best = found["best"]
    assert best["value"] == min(one["value"] for one in by_state["COMPLETE"])
    assert runs[best["run"]]["summary"]["val/loss"]["last"] == pytest.approx(best["value"])
    again = yard.post(f"/sweeps/{sweep}/launch", {"seeds": 3})["runs"]
    assert {yard.wait_for_end(run)["spec"]["train"]["seed"] for run in again} == {0, 1, 2}


@pytest.fixture
def searched(yard: Yard) -> Iterator[Callable[[str, str], list[Document]]]:
    """Return the trials of a short search by CMA-ES, one at a time, in which a process was killed."""
    begun: list[str] = []

    def search(name: str, killed: str = "") -> list[Document]:
        begun.append(yard.post("/sweeps", short(name))["id"])
        if killed:
            kill_on_the_way(yard, begun[-1], killed, (2, 4))
        found: list[Document] = succeeded(yard, begun[-1])["trials"]
        return found

    yield search
    for one in begun:
        stop(yard, one)


def short(name: str) -> Document:
    return {
        "name": name,
        "base": {
            "name": "digits",
            "task": {"recipe": "image-classifier", "model": {"layers": 3, "width": 8}},
            "train": {"steps": 30, "batch_size": 32, "warmup_steps": 0, "validate_every_steps": 0},
        },
        "space": {
            "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
            "train.weight_decay": {"low": 0.0, "high": 0.3},
        },
        "objective": {"metric": "val/loss"},
        "budget": {"trials": FEW, "parallel": 1},
        "sampler": {"name": "cmaes", "population": 2},
        "seed": SEED,
    }


@pytest.mark.extended
def test_killed_control_and_ingest_change_no_suggestion(searched: Callable[..., list[Document]]) -> None:
    undisturbed = searched("undisturbed")
    assert len({str(one["parameters"]) for one in undisturbed}) == FEW
    for process in ("control", "ingest"):
        found = searched(f"{process}-killed", process)
        assert [(one["parameters"], one["value"]) for one in found] == [
            (one["parameters"], one["value"]) for one in undisturbed
        ]

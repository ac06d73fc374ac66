"""A sweep of many trials, each with its run and its time on a slot, written past the product's rules:
`python -m benchmarks.load.long_sweep 10000` in the home of a Trainyard prints the sweep's id."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.load.crowd import given_times, spec, write
from trainyard.contract.base import JsonObject

if TYPE_CHECKING:
    from runs.models import Node, Run, Sweep, Trial

NUM_NODES, SLOTS = 2, 8
STEPS = 300
STATES = ("PRUNED",) * 12 + ("COMPLETE",) * 7 + ("FAILED",)
SPACE: JsonObject = {
    "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "train.weight_decay": {"low": 1e-4, "high": 1e-1, "log": True},
    "train.gradient_clip": {"low": 0.1, "high": 2.0},
    "train.batch_size": {"low": 8, "high": 128, "int": True, "step": 8},
    "task.model.width": {"low": 32, "high": 256, "int": True, "step": 32},
    "train.optimizer": {"values": ["adamw", "sgd"]},
}


def plant(count: int) -> str:
    """Write an ended sweep of ``count`` trials on the slots of two nodes; return its id."""
    from django.utils import timezone

    from runs.models import Attempt, Run, Trial

    now = timezone.now()
    sweep, nodes = _sweep(count, now), _nodes()
    plans = list(_plans(count, now))
    with given_times(Run, Attempt):
        runs = [_run(sweep, one) for one in plans]
        write(iter(runs))
        attempts = [_attempt(run, one) for run, one in zip(runs, plans, strict=True)]
        write(iter(attempts))
    write(_placement(attempt, nodes[one["slot"] // SLOTS]) for attempt, one in zip(attempts, plans, strict=True))
    trials = [_trial(sweep, run, one) for run, one in zip(runs, plans, strict=True)]
    write(iter(trials))
    complete = [one for one in trials if one.state == "COMPLETE" and one.value is not None]
    sweep.best = Trial.objects.get(sweep=sweep, number=min(complete, key=lambda one: one.value or 0.0).number)
    sweep.save()
    return sweep.pk


def _plans(count: int, now: datetime) -> Iterator[JsonObject]:
    """Yield what each trial tried, what came of it, and when it held which slot."""
    chance = np.random.default_rng(0)
    num_slots = NUM_NODES * SLOTS
    free = [now - timedelta(seconds=60.0 * count / num_slots)] * num_slots
    for number in range(count):
        rate, decay = (float(10**one) for one in chance.uniform(-4, -1, 2))
        state = STATES[number % len(STATES)]
        steps = int(chance.integers(20, 200)) if state == "PRUNED" else STEPS
        slot = free.index(min(free))
        start = free[slot]
        free[slot] = start + timedelta(seconds=0.3 * steps)
        value = 0.3 + (np.log10(rate) + 2.5) ** 2 + 0.1 * np.log10(decay) ** 2 + chance.normal(0, 0.05)
        yield {
            "number": number, "state": state, "steps": steps, "slot": slot, "start": start, "end": free[slot],
            "value": None if state == "FAILED" else float(value),
            "parameters": {
                "train.learning_rate": rate, "train.weight_decay": decay,
                "train.gradient_clip": float(chance.uniform(0.1, 2.0)), "train.batch_size": int(8 * (1 + number % 16)),
                "task.model.width": int(32 * (1 + number % 8)), "train.optimizer": ("adamw", "sgd")[number % 2],
            },
        }  # fmt: skip


def _sweep(count: int, now: datetime) -> Sweep:
    from runs.models import Cluster, Project, Sweep
    from trainyard.spec.sweeps import parse_sweep

    project, _ = Project.objects.get_or_create(name="default")
    cluster, _ = Cluster.objects.get_or_create(name="local")
    base = spec("long", resources={"nodes": 1, "processes_per_node": 1, "accelerator": "auto"})
    parsed = parse_sweep({
        "name": f"long-{count}", "base": base, "space": SPACE, "objective": {"metric": "val/loss"},
        "budget": {"trials": count, "parallel": NUM_NODES * SLOTS}, "sampler": "tpe", "pruner": "asha",
    })  # fmt: skip
    return Sweep.objects.create(
        project=project, cluster=cluster, name=parsed.name, spec=parsed.as_document(), base_spec=base,
        status="SUCCEEDED", ended_at=now,
    )  # fmt: skip


def _nodes() -> list[Node]:
    from runs.models import Cluster, Node

    cluster, usual = Cluster.objects.get(name="local"), {"key": "0" * 64, "slots": SLOTS}
    names = [f"slot-node-{place}" for place in range(NUM_NODES)]
    return [Node.objects.get_or_create(cluster=cluster, name=name, defaults=usual)[0] for name in names]


def _run(sweep: Sweep, plan: JsonObject) -> Run:
    from runs.models import Run

    name = f"{sweep.name}-{plan['number']}"
    run = Run(
        project=sweep.project, cluster=sweep.cluster, name=name, spec=spec(name), tags=[f"sweep:{sweep.name}"],
        status="FAILED" if plan["state"] == "FAILED" else "SUCCEEDED", num_nodes=1, slots_per_node=1,
        started_at=plan["start"], ended_at=plan["end"],
    )  # fmt: skip
    run.created_at = plan["start"]
    return run


def _attempt(run: Run, plan: JsonObject) -> Any:
    from runs.models import Attempt

    attempt = Attempt(run=run, number=1, fence=1, world_size=1, ended_at=plan["end"])
    attempt.created_at = plan["start"]
    return attempt


def _placement(attempt: Any, node: Node) -> Any:
    from runs.models import Placement

    return Placement(attempt=attempt, node=node, node_rank=0, first_rank=0, num_ranks=1)


def _trial(sweep: Sweep, run: Run, plan: JsonObject) -> Trial:
    from runs.models import Trial

    return Trial(
        sweep=sweep, number=plan["number"], state=plan["state"], value=plan["value"], parameters=plan["parameters"],
        run=run, started_at=plan["start"], ended_at=plan["end"], steps=plan["steps"],
        pruned_at_step=plan["steps"] if plan["state"] == "PRUNED" else None,
    )  # fmt: skip


if __name__ == "__main__":
    from dashboard.up.database import set_up_django

    set_up_django()
    print(plant(int(sys.argv[1])))

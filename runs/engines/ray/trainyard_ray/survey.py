"""Jobs and machines in Ray now. These functions run in the cluster where only its client reaches it."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError

from .attempt import cause_in, draining_nodes, plain
from .documents import NAMESPACE, SILENT, JobReport, RayAnswer, RayMachine, text_of


def survey(prefix: str, limit_s: float) -> str:
    """Return our jobs, each as its actor reports it, and the machines."""
    names = sorted(name for name in ray.util.list_named_actors() if name.startswith(prefix) and "." not in name)
    asked: dict[str, Any] = {}
    for name in names:
        try:
            asked[name] = ray.get_actor(name, namespace=NAMESPACE).report.remote()
        except ValueError:  # it has gone meanwhile
            continue
    answered = set(ray.wait(list(asked.values()), num_returns=len(asked), timeout=limit_s / 2)[0]) if asked else set()
    jobs = [report_of(name, reference, reference in answered) for name, reference in asked.items()]
    return text_of(RayAnswer(jobs=jobs, machines=machines()))


def report_of(name: str, reference: Any, has_answered: bool) -> JobReport:
    if not has_answered:
        return JobReport(name, SILENT)
    try:
        return JobReport(**ray.get(reference))
    except ActorDiedError as error:
        return JobReport(name, "over", end=cause_in(str(error)), words=plain(error))
    except RayError:  # it may be reached again: what is not known to be over is not
        return JobReport(name, SILENT)


def machines() -> list[RayMachine]:
    free = ray._private.state.available_resources_per_node()
    draining = draining_nodes()
    return [
        RayMachine(
            str(node.get("NodeManagerHostname") or node.get("NodeManagerAddress")),
            plain_resources(node.get("Resources") or {}),
            plain_resources(free.get(node["NodeID"]) or {}),
            node["NodeID"] in draining,
        )
        for node in ray.nodes()
        if node.get("Alive")
    ]


def plain_resources(resources: dict[str, float]) -> dict[str, float]:
    """Leave out those by which Ray itself finds a machine or a placement group."""
    return {name: number for name, number in resources.items() if not ("_group_" in name or name.startswith("node:"))}


def find(name: str) -> str:
    """Return how the actor of a job that is not there any more ended, by Ray's own books."""
    found = [one for one in ray._private.state.actors().values() if one["Name"] == name and one["State"] == "DEAD"]
    if not found:
        return text_of(RayAnswer())
    cause = max(found, key=lambda one: int(one["EndTime"]))["DeathCause"]
    words = str(getattr(cause.actor_died_error_context, "error_message", "") or cause)
    return text_of(RayAnswer(jobs=[JobReport(name, "over", end=cause_in(words), words=plain(words))]))

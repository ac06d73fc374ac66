"""The actor of one attempt: it owns the placement group and the machines' actors, which end with it.

It is detached and has the name of the job, so a control that was killed finds it again. It looks by itself whether its
machines live, and gives them back when all have ended: nobody needs to ask it for that.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .documents import JobReport, RayRequest
from .machine import MAX_WORDS, Machine

LOOK_EVERY_S = 0.5
KILL_AFTER_S = 30.0  # from asking the nodes to leave
KEPT_S = 600.0  # how long an end can be read here, where nobody takes it
CAUSES = (  # what Ray's sentences hold, in the order in which they are looked for
    ("placement group was removed", "removed"),
    ("ray.kill", "killed"),
    ("out of memory", "out-of-memory"),
    ("memory pressure", "out-of-memory"),
    ("node was terminated", "machine-died"),
    ("node has died", "machine-died"),
    ("node died", "machine-died"),
    ("node that", "machine-died"),
    ("node is dead", "machine-died"),
    ("raylet", "machine-died"),
)


class AttemptMachines:
    def __init__(self, text: str) -> None:
        self._request = request = RayRequest.read(text)
        self._report = JobReport(request.job, "pending", request.num_machines, request.strategy, request.demand)
        self._lock = threading.Lock()
        self._stopped_at = 0.0
        self._over_at = 0.0
        self._noticed: set[int] = set()
        self._nodes: dict[int, str] = {}
        self._group = placement_group(
            [request.demand.bundle()] * request.num_machines, strategy=request.strategy, name=request.job
        )
        self._machines = [self._machine(index) for index in range(request.num_machines)]
        self._serving = {machine.serve.remote(): index for index, machine in enumerate(self._machines)}
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def report(self) -> dict[str, Any]:  # no text: actors of older servers report so, and live on
        with self._lock:
            return asdict(self._report)

    def stop(self) -> bool:
        """Have the nodes leave, or take the request back. Return whether nothing is left but this actor."""
        self._stopped_at = self._stopped_at or time.monotonic()
        return bool(self._over_at)

    def _machine(self, index: int) -> Any:
        request, demand = self._request, self._request.demand
        options: dict[str, Any] = {"runtime_env": request.runtime_env} if request.runtime_env else {}
        actor = ray.remote(Machine).options(
            name=f"{request.job}.{index}",
            num_cpus=demand.cpus,
            num_gpus=demand.gpus,
            max_concurrency=3,
            max_restarts=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index),
            **options,
        )
        words = [request.python, *request.words, "--machine", str(index)]
        return actor.remote(words, request.variables, request.output)

    def _watch(self) -> None:
        while not self._over_at:
            try:
                self._look()
            except Exception as error:  # nobody else would give the machines back; it stands in Ray's log of the actor
                print(f"trainyard: {type(error).__name__}: {error}", flush=True)
                time.sleep(LOOK_EVERY_S)
        time.sleep(KEPT_S)
        os._exit(0)

    def _look(self) -> None:
        waiting = list(self._serving)
        ended, _ = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_EVERY_S)
        self._see_group()
        for reference in ended:
            self._end(self._serving.pop(reference), reference)
        if self._stopped_at:
            self._end_machines()
        else:
            self._pass_notice_on()
        if not self._serving:
            remove_placement_group(self._group)
            with self._lock:
                self._report.state = "over"
                self._over_at = time.monotonic()

    def _see_group(self) -> None:
        table = placement_group_table(self._group)
        if table.get("state") not in ("CREATED", "RESCHEDULING"):
            return
        found = {int(index): str(node) for index, node in table.get("bundles_to_node_id", {}).items() if node}
        self._nodes.update(found)
        hosts = hosts_by_node()
        with self._lock:
            self._report.state = "running"
            self._report.started_at = self._report.started_at or time.time()
            names = [hosts.get(node, "") for _, node in sorted(self._nodes.items())]
            self._report.hosts = list(dict.fromkeys(name for name in names if name)) or self._report.hosts

    def _end(self, index: int, reference: Any) -> None:
        """Take in how one machine ended. The first one that failed decides what is said of all, and ends all."""
        kind, words, exit_code = end_of(reference)
        if not kind or self._stopped_at:
            return
        with self._lock:
            self._report.end, self._report.words, self._report.exit_code = kind, words, exit_code
            self._report.host = hosts_by_node().get(self._nodes.get(index, ""), "")
        self.stop()

    def _end_machines(self) -> None:
        if self._report.state == "pending":
            remove_placement_group(self._group)
            kill(self._machines)
        elif time.monotonic() - self._stopped_at > KILL_AFTER_S:
            kill([self._machines[index] for index in self._serving.values()])
        else:
            for index in self._serving.values():
                self._machines[index].stop.remote()

    def _pass_notice_on(self) -> None:
        """A machine that Ray drains is taken back soon."""
        draining = draining_nodes()
        for index in self._serving.values():
            if index not in self._noticed and self._nodes.get(index, "-") in draining:
                self._noticed.add(index)
                self._machines[index].notice.remote()


def end_of(reference: Any) -> tuple[str, str, int | None]:
    """Return the kind of end, empty for a good one, with words and the exit code."""
    try:
        ending = ray.get(reference, timeout=LOOK_EVERY_S)
    except OutOfMemoryError as error:
        return "out-of-memory", plain(error), None
    except RayActorError as error:
        return "preempted" if error.preempted else cause_in(str(error)), plain(error), None
    except (RayError, GetTimeoutError) as error:
        return "failed", plain(error), None
    code, words = ending
    return "" if code == 0 else "exited", str(words), int(code)


def cause_in(text: str) -> str:
    return next((kind for words, kind in CAUSES if words in text.lower()), "failed")


def plain(error: BaseException | str) -> str:
    """Return Ray's sentence without the lines of names and numbers before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    return " ".join(lines[1:] or lines)[:MAX_WORDS]


def kill(actors: list[Any]) -> None:
    for actor in actors:
        ray.kill(actor, no_restart=True)


def hosts_by_node() -> dict[str, str]:
    return {str(node["NodeID"]): str(node.get("NodeManagerHostname") or "") for node in ray.nodes()}


def draining_nodes() -> set[str]:
    """Return the ids of nodes that are being drained, as far as this version of Ray can tell."""
    look = getattr(ray._private.state.state, "get_draining_nodes", None)
    return set() if look is None else set(look())

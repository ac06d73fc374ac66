"""Commands that only look: runs, one run, clusters, nodes."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from trainyard.cli.screen import STATUS_STYLES, Screen, ago, figure
from trainyard.client import Client


def runs(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    filters = {name: getattr(arguments, name) for name in ("status", "project", "tag", "q", "sort")}
    found = list(itertools.islice(client.runs(**filters, limit=min(arguments.limit, 100)), arguments.limit))
    if arguments.json:
        screen.json({"items": found})
    elif found:
        titles = ("id", "name", "status", "step", "project", "cluster", "created")
        screen.table(titles, [_row(run) for run in found])
    else:
        screen.say("No runs. Launch one with `trainyard submit FILE`.")
    return 0


def show(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = client.run(arguments.id)
    if arguments.json:
        screen.json(run)
        return 0
    reason = run.get("reason") or {}
    screen.line(f"{run['name']} ({run['id']})", "bold")
    screen.line(f"{run['status']}: {reason.get('sentence') or ''}".rstrip(": "), STATUS_STYLES.get(run["status"], ""))
    screen.line(f"step       {_steps(run) or '-'}{_percent(run)}")
    screen.line(f"where      project {run['project']}, cluster {run['cluster']}, attempt {_attempt(run)}")
    for word in ("created", "started", "ended"):
        if run.get(f"{word}_at"):
            screen.line(f"{word:9}  {run[f'{word}_at']} ({ago(run[f'{word}_at'])})")
    for name, lamp in (run.get("lamps") or {}).items():
        screen.line(f"{name:9}  {_lamp(lamp)}")
    summary = run.get("summary") or {}
    if summary:
        screen.line("")
        rows = [
            (name, *(figure(one.get(key)) for key in ("last", "min", "max", "count"))) for name, one in summary.items()
        ]
        screen.table(("metric", "last", "min", "max", "count"), rows)
    return 0


def clusters(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = list(client.clusters())
    if arguments.json:
        screen.json({"items": found})
    elif found:
        titles = ("name", "engine", "region", "id")
        screen.table(titles, [[cluster.get(title) for title in titles] for cluster in found])
    else:
        screen.say("No clusters yet.")
    return 0


def nodes(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = list(client.nodes(cluster=arguments.cluster))
    if arguments.json:
        screen.json({"items": found})
    elif found:
        titles = ("name", "cluster", "slots", "accelerator", "state", "seen", "id")
        screen.table(titles, [_node_row(node) for node in found])
    else:
        screen.say("No nodes. Add one with `trainyard node --join TOKEN --server URL` on its machine.")
    return 0


def _row(run: dict[str, Any]) -> tuple[object, ...]:
    return (
        run["id"],
        run["name"],
        run["status"],
        _steps(run) + _percent(run),
        run["project"],
        run["cluster"],
        ago(run["created_at"]),
    )


def _steps(run: dict[str, Any]) -> str:
    step, steps = run.get("step"), run.get("steps")
    if step is None and steps is None:
        return ""
    return f"{step or 0:,}" + (f" of {steps:,}" if steps else "")


def _percent(run: dict[str, Any]) -> str:
    progress = run.get("progress")
    return f" ({progress:.0%})" if isinstance(progress, int | float) else ""


def _attempt(run: dict[str, Any]) -> object:
    attempt = run.get("attempt")
    if isinstance(attempt, dict):
        attempt = attempt.get("fence", attempt.get("number"))
    return "none" if attempt is None else attempt


def _lamp(lamp: object) -> str:
    if isinstance(lamp, dict):
        return " ".join(str(part) for part in (lamp.get("colour") or lamp.get("state"), lamp.get("sentence")) if part)
    return str(lamp)


def _node_row(node: dict[str, Any]) -> tuple[object, ...]:
    state = node.get("state") or ("draining" if node.get("is_draining") else "")
    columns = (node.get("name"), node.get("cluster"), node.get("slots"), node.get("accelerator"))
    return (*columns, state, ago(node.get("seen_at")), node.get("id"))

"""Commands that only look: runs, one run, and what a run would cost."""

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import get_args

from trainyard.cli.launching import overrides_of, read_spec
from trainyard.cli.screen import LAMP_STYLES, STATUS_STYLES, Screen, ago, figure, size
from trainyard.contract import facts
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.facts import TimeDocument
from trainyard.formats.figures import between, duration, percent, rate, scaled, seconds
from trainyard.formats.words import counted
from trainyard.grouping import grouped
from trainyard.rest.answers import Plans
from trainyard.rest.client import Client

SHOWN_S = 0.5  # a shorter part of a run's time is left out


def runs(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    filters = {name: getattr(arguments, name) for name in ("project", "tag", "q", "filter", "sort")}
    statuses = arguments.status.upper().split(",") if arguments.status else None
    pages = client.runs(**filters, status=statuses, archived=arguments.archived, limit=min(arguments.limit, 200))
    found = list(itertools.islice(pages, arguments.limit))
    titles = ("id", "name", "status", "step", "project", "cluster", "created")
    nothing = "No runs. Launch one with `trainyard submit FILE`."
    screen.listing(found, titles, _row, nothing, is_json=arguments.json)


def show(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    run = client.run(arguments.id)
    if arguments.json:
        screen.json(run)
        return
    screen.line(f"{run['name']} ({run['id']})", "bold")
    screen.line(f"{_status(run)}: {run['reason']['sentence']}".rstrip(": "), STATUS_STYLES.get(run["status"], ""))
    _show_cause(client, run, screen)
    on = f"cluster {run['cluster']}, attempt {run['attempt'] or 'none yet'}" if run["cluster"] else "not on a cluster"
    times = {"created": run["created_at"], "started": run["started_at"], "ended": run["ended_at"]}
    screen.facts({
        "step": f"{_steps(run) or '-'}{_percent(run)}",
        "where": f"project {run['project']}, {on}",
        "speed": _speed(run["throughput"]) if "throughput" in run else None,
        "restarts": _restarts(run["restarts"]) if "restarts" in run else None,
        "restored": _restored(run["restarts"]) if "restarts" in run else None,
        "time": _time(run.get("time")),
        **{word: at and f"{at} ({ago(at)})" for word, at in times.items()},
    })  # fmt: skip
    for name, lamp in run_answers.lamps_of(run):
        screen.line(f"{name:9}  {lamp['colour']:5}  {lamp['sentence']}", LAMP_STYLES.get(lamp["colour"], ""))
    for trouble in run["troubles"]:
        screen.line(f"remark     {trouble['sentence']}", "yellow")
    if summary := run["summary"]:
        screen.line("")
        rows = [(name, *(figure(one[key]) for key in ("last", "min", "max", "count"))) for name, one in summary.items()]
        screen.table(("metric", "last", "min", "max", "count"), rows)


def _show_cause(client: Client, run: run_answers.Run, screen: Screen) -> None:
    """Print why the newest attempt failed, and what ranks elsewhere felt of it."""
    if run["status"] not in ("FAILED", "RECOVERING") or not run["attempt"]:
        return
    newest = max(client.attempts(run["id"]), key=lambda attempt: attempt["number"], default=None)
    if newest is None or (cause := newest.get("cause")) is None:
        return
    screen.line(f"cause      {cause['class']}: {cause['sentence']}")
    for one in cause["consequences"]:
        screen.line(f"followed   {one['sentence']}")


def _row(run: run_answers.Run) -> tuple[object, ...]:
    about = run["project"], run["cluster"], ago(run["created_at"])
    return run["id"], run["name"], _status(run), _steps(run) + _percent(run), *about


def _status(run: run_answers.Run) -> str:
    return "PRUNED" if run.get("is_pruned") else run["status"]


def _speed(throughput: run_answers.Throughput) -> str:
    value, mfu = throughput["value"], throughput["mfu"]
    parts = [f"{figure(value)} {throughput['unit']}"] if value is not None else []
    return ", ".join([*parts, f"MFU {mfu:.1%}"] if mfu is not None else parts)


def _restarts(restarts: run_answers.Restarts) -> str:
    if not restarts["total"]:
        return ""
    parts = [f"{restarts['total']} by itself, {restarts['used']} of {restarts['max']} count now"]
    for one in restarts["left_out"]:
        how = "left out" if one["is_excluded"] else "taken only where there is no other"
        parts.append(f"{one['node']} {how} until {one['until']}")
    return "; ".join(parts)


def _restored(restarts: run_answers.Restarts) -> str:
    """Say what the last restart went on from."""
    source, step, lost = restarts.get("source"), restarts.get("from_step"), restarts.get("steps_lost") or 0
    if not source or step is None:
        return ""
    again = f"{counted(lost, 'step')} trained again" if lost else "no step lost"
    return f"from {source}, step {step:,}; {again}"


def _time(time: TimeDocument | None) -> str:
    """Return where the time went, the largest part first."""
    if not time or not time["total_s"]:
        return ""
    parts = {
        "productive": time["productive_s"],
        "saving checkpoints": time["checkpoint_s"],
        "training again": time["recomputed_s"],
        "noticing failures": time["detection_s"],
        "restarting": time["restart_s"],
        "starting": time["starting_s"],
        "waiting": time["queued_s"],
        "paused": time["paused_s"],
    }
    largest = sorted(parts.items(), key=lambda part: -part[1])
    words = ", ".join(f"{name} {duration(took_s)}" for name, took_s in largest if took_s >= SHOWN_S)
    return f"goodput {percent(time['goodput'])} of {duration(time['total_s'])}" + (f": {words}" if words else "")


def _steps(run: run_answers.Run) -> str:
    step, steps = run["step"], run["steps"]
    if step is None and steps is None:
        return ""
    return f"{step or 0:,}" + (f" of {steps:,}" if steps else "")


def _percent(run: run_answers.Run) -> str:
    return "" if run["progress"] is None else f" ({run['progress']:.0%})"


# ``trainyard plan``: what a spec would cost, and the plans that would cost less.


MEMORY_PARTS: tuple[facts.MemoryPart, ...] = get_args(facts.MemoryPart)
STEP_PARTS: tuple[facts.StepPart, ...] = get_args(facts.StepPart)


def plan(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    document, _, _ = read_spec(arguments.file, overrides_of(arguments.overrides))
    answer = client.call("POST", "plans", Plans, params={"count": arguments.count}, json=document)
    if arguments.json:
        screen.json(answer)
        return
    estimate, rates = answer["estimate"], answer["rates"]
    measured = f"measured by run {rates['run']}" if rates["run"] else "measured by another project's benchmark"
    basis = measured if rates["is_measured"] else "assumed: nobody has measured this cluster"
    nodes = f"{', '.join(answer['nodes'][:8])}{', …' if len(answer['nodes']) > 8 else ''}"
    screen.facts({"on": nodes, "speeds": basis, **_facts(estimate)})
    screen.line("")
    screen.table(("ranks", *MEMORY_PARTS, "total", "range", "of"), list(_memory(estimate)))
    for warning in estimate["warnings"]:
        screen.say(warning, "yellow")
    if answer["proposals"]:
        screen.line("")
        screen.table(("plan", "step", "memory", "why"), [_proposal(one) for one in answer["proposals"]])


def _facts(estimate: facts.EstimateDocument) -> dict[str, str]:
    times = estimate["step_time"]
    parts = ", ".join(f"{name} {seconds(value)}" for name in STEP_PARTS if (value := times.get(name)))
    flops = scaled(estimate["flops_per_step"], "FLOP")
    return {
        "step": f"{seconds(times['total'])}, {_range(times, seconds)}: {parts}",
        "rate": rate(estimate["units_per_second"], estimate["unit"]),
        "sent": f"{size(estimate['sent_bytes'])} in a step, by the rank that sends most",
        "bubble": f"{percent(estimate['bubble'])} of a step" if estimate["bubble"] else "",
        "model": f"{estimate['num_parameters']:,} parameters, {flops} in a step",
    }


def _memory(estimate: facts.EstimateDocument) -> Iterator[tuple[str, ...]]:
    """A row for each kind of rank."""
    numbered = enumerate(zip(estimate["memory"], estimate["memory_limits"], strict=True))
    for cells, ranks in grouped((_cells(one, limit), rank) for rank, (one, limit) in numbered).items():
        yield f"{ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} from {ranks[0]}", *cells


def _cells(one: facts.MemoryDocument, limit: float) -> tuple[str, ...]:
    parts = [size(one.get(part, 0.0)) for part in MEMORY_PARTS]
    return *parts, size(one["total"]), _range(one, size), size(limit)


def _proposal(one: facts.ProposalDocument) -> tuple[str, ...]:
    changes = " ".join(f"--set {path}={value}".lower() for path, value in one["changes"].items())
    fullest = max(one["estimate"]["memory"], key=lambda memory: memory["total"])
    return changes or "as it is", _range(one["estimate"]["step_time"], seconds), _range(fullest, size), one["sentence"]


def _range(one: facts.MemoryDocument | facts.StepTimeDocument, write: Callable[[float], str]) -> str:
    return between(one["low"], one["high"], write)

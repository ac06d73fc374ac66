"""``trainyard plan``: what a spec would cost, and the plans that would cost less."""

import argparse
from collections.abc import Callable, Iterator
from typing import get_args

from trainyard.cli.launching import read_spec
from trainyard.cli.screen import Screen, size
from trainyard.contract import facts
from trainyard.formats.figures import between, percent, rate, scaled, seconds
from trainyard.grouping import grouped
from trainyard.rest.client import Client

MEMORY_PARTS: tuple[facts.MemoryPart, ...] = get_args(facts.MemoryPart)
STEP_PARTS: tuple[facts.StepPart, ...] = get_args(facts.StepPart)


def plan(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    document, _, _ = read_spec(arguments)
    answer = client.plan(document, count=arguments.count)
    if arguments.json:
        screen.json(answer)
        return 0
    estimate, rates = answer["estimate"], answer["rates"]
    measured = f"measured by run {rates['run']}" if rates["run"] else "measured by another project's benchmark"
    basis = measured if rates["is_measured"] else "assumed: nobody has measured this cluster"
    screen.line(f"on         {', '.join(answer['nodes'][:8])}{', …' if len(answer['nodes']) > 8 else ''}")
    screen.line(f"speeds     {basis}")
    for name, text in _facts(estimate):
        screen.line(f"{name:9}  {text}")
    screen.line("")
    screen.table(("ranks", *MEMORY_PARTS, "total", "range", "of"), list(_memory(estimate)))
    for warning in estimate["warnings"]:
        screen.say(warning, "yellow")
    if answer["proposals"]:
        screen.line("")
        screen.table(("plan", "step", "memory", "why"), [_proposal(one) for one in answer["proposals"]])
    return 0


def _facts(estimate: facts.EstimateDocument) -> Iterator[tuple[str, str]]:
    times = estimate["step_time"]
    parts = ", ".join(f"{name} {seconds(value)}" for name in STEP_PARTS if (value := times.get(name)))
    yield "step", f"{seconds(times['total'])}, {_range(times, seconds)}: {parts}"
    yield "rate", rate(estimate["units_per_second"], estimate["unit"])
    yield "sent", f"{size(int(estimate['sent_bytes']))} in a step, by the rank that sends most"
    if estimate["bubble"]:
        yield "bubble", f"{percent(estimate['bubble'])} of a step"
    yield "model", f"{estimate['num_parameters']:,} parameters, {scaled(estimate['flops_per_step'], 'FLOP')} in a step"


def _memory(estimate: facts.EstimateDocument) -> Iterator[tuple[str, ...]]:
    """A row for each kind of rank."""
    numbered = enumerate(zip(estimate["memory"], estimate["memory_limits"], strict=True))
    for cells, ranks in grouped((_cells(one, limit), rank) for rank, (one, limit) in numbered).items():
        yield f"{ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} from {ranks[0]}", *cells


def _cells(one: facts.MemoryDocument, limit: float) -> tuple[str, ...]:
    parts = [size(int(one.get(part, 0))) for part in MEMORY_PARTS]
    return *parts, size(int(one["total"])), _range(one, _size), size(int(limit))


def _proposal(one: facts.ProposalDocument) -> tuple[str, ...]:
    changes = " ".join(f"--set {path}={value}".lower() for path, value in one["changes"].items())
    fullest = max(one["estimate"]["memory"], key=lambda memory: memory["total"])
    return changes or "as it is", _range(one["estimate"]["step_time"], seconds), _range(fullest, _size), one["sentence"]


def _range(one: facts.MemoryDocument | facts.StepTimeDocument, write: Callable[[float], str]) -> str:
    return between(one["low"], one["high"], write)


def _size(value: float) -> str:
    return size(int(value))

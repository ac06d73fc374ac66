"""Specs, nodes and rates for the tests of the planner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainyard.planner import Estimate, Link, NodeFacts, Rates, estimate
from trainyard.spec import parse_spec
from trainyard.spec.models import RecipeSpec

MIB = 2**20
GIB = 2**30
NODE = NodeFacts("a", slots=1, accelerator="cpu", cores=8, memory_bytes=16 * GIB)
GPU = NodeFacts("g", slots=8, accelerator="gpu", cores=64, memory_bytes=512 * GIB, device_memory_bytes=80 * GIB)
LINK = Link(ranks=2, latency_s=1e-3, bytes_per_s=1e9)
RATES = Rates(
    matmul=((1e6, 1e10), (1e9, 1e11)),
    memory_bytes_per_s=1e10,
    operator_s=1e-6,
    base_memory_bytes=100 * MIB,
    links=dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter", "send-receive"), LINK),
    is_measured=True,
)


def spec_of(**changes: Any) -> RecipeSpec:
    """Return a spec for ``world`` ranks of ``recipe`` with ``model`` and ``data``; others are sections, or of train."""
    task = {"recipe": changes.pop("recipe", "language-model")}
    task |= {name: changes.pop(name) for name in ("model", "data") if name in changes}
    sections = {name: changes.pop(name) for name in ("parallel", "checkpoint") if name in changes}
    resources = {"nodes": changes.pop("world", 1), "processes_per_node": changes.pop("processes", 1)}
    spec = parse_spec({"name": "plan", "resources": resources, "task": task, "train": changes, **sections})
    assert isinstance(spec, RecipeSpec)
    return spec


def estimated(spec: RecipeSpec, *, node: NodeFacts = NODE, rates: Rates = RATES) -> Estimate:
    nodes = [replace(node, name=f"{node.name}{index}") for index in range(spec.resources.nodes)]
    return estimate(spec, nodes, rates)

"""Needs of a run beside slots, of each of its nodes, as its row keeps them. Pure."""

import hashlib
import json
import math

import msgspec

from trainyard.contract.base import SpecDocument
from trainyard.contract.machines import Cpu, Inventory
from trainyard.formats.figures import size
from trainyard.spec.sections.environment import environment_of
from trainyard.spec.sections.resources import bytes_of, kinds_in, tokens_of

NEAR = ("context", "shard", "tensor")  # of parallel: ranks of these groups talk in each layer


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    gpu: tuple[str, ...] = ()  # kinds, any of which will do
    memory_bytes: int = 0
    cpus: int = 0
    labels: tuple[tuple[str, str], ...] = ()  # names and values
    preferred: tuple[tuple[str, str], ...] = ()
    num_near: int = 1  # nodes in a row whose ranks talk most
    within: str = ""  # a level of the topology: all nodes are in one place of it
    kept: tuple[str, ...] = ()  # what a node need not fetch again: the data from a URL, the image or environment

    def missing(self, machine: Inventory) -> list[str]:
        """Return what the machine has not, in words. What nobody knows of it, it has not."""
        names = [tokens_of(name) for name in {gpu.name or "" for gpu in machine.gpus or []}]
        found = [f"label {name}={value}" for name, value in lacking(self.labels, machine)]
        if self.gpu and not (names and all(any(tokens_of(kind) <= name for kind in self.gpu) for name in names)):
            found.append(" or ".join(self.gpu))  # H100 is in "NVIDIA H100 80GB HBM3", and A10 not in "NVIDIA A100"
        if self.memory_bytes > (machine.memory_bytes or 0):
            found.append(f"{size(self.memory_bytes)} of memory")
        if self.cpus > ((machine.cpu or Cpu()).count or 0):
            found.append(f"{self.cpus} cores")
        return found

    def fetched(self, machine: Inventory) -> list[str]:
        """Return what the node would have to fetch or build."""
        return [key for key in self.kept if key not in (machine.kept or {})]


def lacking(labels: tuple[tuple[str, str], ...], machine: Inventory) -> list[tuple[str, str]]:
    return [(name, value) for name, value in labels if (machine.labels or {}).get(name) != value]


def needs_of(spec: SpecDocument) -> Needs | None:
    """Return the needs of a resolved spec, also of one from before there were any; None where it has none."""
    resources, parallel = spec.get("resources", {}), spec.get("parallel", {})
    num_ranks = math.prod(parallel.get(axis, 1) for axis in NEAR)
    location = (spec.get("task", {}).get("data") or {}).get("location", "")
    data = key_of(location) if "://" in location and not location.startswith("file://") else ""
    found = Needs(
        gpu=kinds_in(resources.get("gpu", "")),
        memory_bytes=bytes_of(resources.get("memory_per_node", "")),
        cpus=resources.get("cpus", 0),
        labels=tuple(sorted(resources.get("labels", {}).items())),
        preferred=tuple(sorted(resources.get("preferred_labels", {}).items())),
        within=resources.get("within", ""),
        num_near=math.ceil(num_ranks / resources.get("processes_per_node", 1)),
        kept=tuple(f"{spec.get('project', '')}/{key}" for key in (data, environment_key(spec)) if key),
    )
    return None if found == Needs() else found


def environment_key(spec: SpecDocument) -> str:
    """Return what names the image or environment of a spec; empty where it is the node's own."""
    return key_of(json.dumps(spec["environment"], sort_keys=True)) if environment_of(spec) else ""


def key_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]

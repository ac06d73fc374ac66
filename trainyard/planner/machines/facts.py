"""Facts about nodes and data that the planner gets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, or as many alike as there will be. ``memory_bytes`` is the machine's, ``device_memory_bytes`` that of
    each GPU (None on a CPU node); nodes with the same ``host`` share one machine, its memory and its cores."""

    name: str
    slots: int
    accelerator: str  # cpu or gpu
    cores: int
    memory_bytes: int
    device_memory_bytes: int | None = None
    device: str = ""  # as its maker calls it
    host: str = ""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Facts about the data before a run; None is unknown, and the planner warns of what it then assumes."""

    num_rows: int | None = None
    num_features: int | None = None  # columns of a table
    num_classes: int | None = None  # 0: a quantity is learnt
    channels: int | None = None
    image_size: int | None = None

"""Names of containers."""

from __future__ import annotations

from pathlib import Path

from trainyard.contract.orders import Order

SHARED = Path("/dev/shm")
SHARED_MEMORY = "ty-ranks-"  # begins the names of folders there; the attempt follows


def container_name(order: Order, local_rank: int) -> str:
    return f"trainyard-{order.attempt}-{order.first_rank + local_rank}"


def is_of(name: str, wanted: str) -> bool:
    """Return whether a whole name is what somebody wrote, with or without the registry."""
    return name == wanted or name.endswith(f"/{wanted}")


def with_tag(name: str) -> str:
    """Return the name of an image with the tag that Podman adds where there is none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"

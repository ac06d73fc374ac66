"""What containers are called."""

from __future__ import annotations

from pathlib import Path

from trainyard.contract.orders import Order

SHARED = Path("/dev/shm")
SHARED_MEMORY = "ty-ranks-"  # begins the names of folders there; the attempt follows


def container_name(order: Order, local_rank: int) -> str:
    return f"trainyard-{order.attempt}-{order.first_rank + local_rank}"

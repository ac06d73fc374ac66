"""Bytes that each rank sends in a collective."""

from __future__ import annotations


def ring_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in an all-reduce of ``num_bytes`` around a ring: 2 (N - 1) / N of them.

    Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
    """
    return 2 * (world_size - 1) * num_bytes // world_size


def gathered_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in an all-gather to which it brings ``num_bytes``: its piece and those it passes."""
    return (world_size - 1) * num_bytes


def scattered_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in a reduce-scatter of ``num_bytes`` on each: all pieces but its own. Between GPUs:
    gloo reduces the whole and keeps a piece, which sends twice as much."""
    return (world_size - 1) * num_bytes // world_size


def sent_bytes(num_bytes: int, world_size: int) -> int:
    """Return what a rank sends that sends ``num_bytes`` to one other."""
    return num_bytes

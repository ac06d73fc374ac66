"""Messages of ranks in a step, as the strategies describe them; the planner computes how long they take.

A ring of n ranks sends 2 (n - 1) / n of a payload in an all-reduce and half of that in an all-gather or reduce-scatter,
in as many rounds (Patarasuk & Yuan 2009).
"""

from dataclasses import dataclass

WHOLE = 4  # bytes of a float32
SMALL = {"fp32": 4, "bf16": 2, "fp16": 2}  # bytes of a number that autocast computes with, by precision
BUCKET_BYTES = 25 * 2**20  # of gradients that are sent at once


@dataclass(frozen=True, slots=True)
class Message:
    """``times`` collectives of a step among ``ranks`` ranks, of ``num_bytes`` together.

    ``is_hidden``: it travels while backward computes, where a core is free to carry it. ``is_copied``: DTensor's, along
    another dimension than the first, which copies before and after.
    """

    operation: str
    ranks: int
    num_bytes: float
    times: float
    is_hidden: bool = False
    is_copied: bool = False

    def sent_bytes(self, *, is_gpu: bool) -> float:
        """Return what each rank sends of it. On a CPU gloo reduces the whole of what is to be scattered."""
        operation = "all-reduce" if self.operation == "reduce-scatter" and not is_gpu else self.operation
        return self.num_bytes * share(operation, self.ranks)


def rounds(operation: str, ranks: int) -> int:
    """Return how often each rank of a ring sends a piece of 1 / ranks; what goes to one other is one piece."""
    if operation == "send-receive":
        return 1
    return (2 if operation in ("all-reduce", "ring") else 1) * max(1, ranks - 1)


def share(operation: str, ranks: int) -> float:
    """Return how much of a payload each rank sends."""
    return 1.0 if operation == "send-receive" else rounds(operation, ranks) / ranks

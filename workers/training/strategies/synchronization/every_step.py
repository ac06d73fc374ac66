"""Ranks agree in every step: gradients are reduced before the optimizer sees them, compressed or not."""

from workers.training.assembly import Assembly
from workers.training.strategies.compression import CompressedStep
from workers.training.strategies.synchronization.protocol import EveryStep


def apply(assembly: Assembly) -> None:
    if assembly.synchronization_kind != "every-step":
        return
    optimizer, precision, compression = assembly.optimizer, assembly.precision, assembly.compression
    if compression is None:
        assembly.synchronization = EveryStep(optimizer, precision)
    else:
        assembly.synchronization = CompressedStep(optimizer, precision, compression)

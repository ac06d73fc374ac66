"""Rates for nodes that nobody has measured: what such machines are known to do, on the slow side.

Peaks are the makers' data sheets (dense, without sparsity); a product of matrices reaches about two thirds of them, and
less where it is small.
"""

from __future__ import annotations

from typing import NamedTuple

from trainyard.planner.machines.rates import Curve, Link, Rates

MIB = 2.0**20


class Device(NamedTuple):
    """Peaks in TFLOP/s and memory in GB/s."""

    fp32: float
    small: float  # bf16 and fp16
    memory: float


# By a word of the device's name, the longer ones first.
GPUS = {
    "H200": Device(67, 989, 4800),
    "H100": Device(67, 989, 3350),
    "B200": Device(80, 2250, 8000),
    "A100": Device(19.5, 312, 1555),
    "L40S": Device(91.6, 362, 864),
    "L40": Device(90.5, 181, 864),
    "L4": Device(30.3, 121, 300),
    "A10": Device(31.2, 125, 600),
    "V100": Device(15.7, 125, 900),
    "T4": Device(8.1, 65, 300),
    "4090": Device(82.6, 165, 1008),
    "3090": Device(35.6, 71, 936),
}
UNKNOWN_GPU = Device(15, 60, 500)
# Half of what a core of a server of 2023 was measured to do, by kind of operator.
CPU_KINDS: dict[str, Curve] = {
    "attention": ((3e4, 5e9), (2e6, 2e10), (8e6, 2.5e10), (7e7, 3e10)),
    "convolution": ((1e6, 1e10), (2e7, 5e10), (6e8, 9e10)),
    "norm": ((1e6, 5e9),),
    "group-norm": ((1.6e4, 1e9), (3e5, 5e9), (2e6, 8e9)),
    "softmax": ((1e6, 5e9),),
    "optimizer": ((1e7, 2e10),),
}
CPU_LINKS = {
    "all-reduce": Link(2, 2e-4, 6e8),
    "all-gather": Link(2, 2e-4, 1e9),
    "reduce-scatter": Link(2, 2e-4, 8e8),
    "send-receive": Link(2, 1e-4, 1e9),
}
GPU_LINKS = {
    "all-reduce": Link(2, 3e-5, 1e10),
    "all-gather": Link(2, 3e-5, 1.5e10),
    "reduce-scatter": Link(2, 3e-5, 1.5e10),
    "send-receive": Link(2, 2e-5, 1.5e10),
}


def default_rates(accelerator: str, device: str = "") -> Rates:
    """Return what is assumed of ``cpu`` (one core a rank) or ``gpu`` nodes; ``device`` is the GPU's name."""
    if accelerator != "gpu":
        return Rates(
            matmul=((5e5, 2e10), (3e7, 4e10), (1e9, 5e10)),
            memory_bytes_per_s=1e10,
            operator_s=3e-6,
            base_memory_bytes=110 * MIB,
            links=CPU_LINKS,
            peak_flops={"fp32": 5e10, "bf16": 5e10, "fp16": 2.5e10},
            kinds=CPU_KINDS,
        )
    found = next((peaks for word, peaks in GPUS.items() if word in device.upper()), UNKNOWN_GPU)
    return Rates(
        matmul=tuple((size, share * found.fp32 * 1e12) for size, share in ((1e8, 0.05), (1e10, 0.5), (1e11, 0.7))),
        memory_bytes_per_s=0.7 * found.memory * 1e9,
        operator_s=8e-6,
        base_memory_bytes=64 * MIB,
        links=GPU_LINKS,
        peak_flops={"fp32": found.fp32 * 1e12, "bf16": found.small * 1e12, "fp16": found.small * 1e12},
        kinds={
            "matmul/bf16": _gpu_curve(found.small * 1e12),
            "matmul/fp16": _gpu_curve(found.small * 1e12),
        },
    )


def _gpu_curve(peak: float) -> Curve:
    return (1e8, 0.05 * peak), (1e10, 0.4 * peak), (1e12, 0.65 * peak)

"""torch.compile of a model's blocks, where a machine has what it takes."""

import sysconfig
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn

from workers.training.assembly import Assembly


def apply(assembly: Assembly) -> None:
    if assembly.settings.compile:
        compile_blocks(assembly.blocks, assembly.device)


def compile_blocks(blocks: Iterable[nn.Module], device: torch.device) -> None:
    """Let each of ``blocks`` be compiled at its first call.

    One by one and not the model as a whole: they are alike, so that one is compiled and the others find it done, and
    what strategies hang between them stays outside. In place: no name of a parameter changes. Raises ValueError,
    saying what is missing, where this machine cannot compile.
    """
    refuse_without_compiler(device)
    import torch._inductor.config as inductor  # only here: it is slow to import, and few runs compile

    # Its default is a pool of as many processes as there are cores, for each rank.
    inductor.compile_threads = 1
    for block in blocks:
        block.compile()


def refuse_without_compiler(device: torch.device) -> None:
    """Raise ValueError unless a small function compiles and runs on ``device``."""
    missing = missing_for_triton(device) if device.type == "cuda" else missing_for_cpp()
    if missing := missing or failure_of_a_try(device):
        raise ValueError(f"train.compile is true, but {missing}; false trains the same without")


def missing_for_cpp() -> str | None:
    """Return what keeps the compiler for CPUs from its work, as far as it can be seen without trying."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "this node has no C++ compiler (g++ or clang++ on PATH, or its name in CXX)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return None if header.exists() else f"this node has no {header}, which comes with Python's development package"


def missing_for_triton(device: torch.device) -> str | None:
    """Return what keeps the compiler for GPUs from its work, as far as it can be seen without trying."""
    from torch.utils._triton import has_triton_package

    if not has_triton_package():
        return "this node has no Triton, which compiles for GPUs"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 7:
        name = torch.cuda.get_device_name(device)
        return f"{name} has compute capability {major}.{minor}, and Triton compiles for 7.0 and above"
    return None


def failure_of_a_try(device: torch.device) -> str | None:
    """Compile and run one addition. A compiler that is there can still be broken, or have no place for its files."""
    try:
        with warnings.catch_warnings():
            # Modules that the compiler imports warn of torch's own code, which nobody here can change.
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.compile(lambda x: x + 1)(torch.zeros(8, device=device))
    except Exception as error:  # whatever a compiler may do: its own sentence goes to the person who asked for it
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"compiling fails on this node: {type(error).__name__}: {lines[0] if lines else 'no reason given'}"
    return None

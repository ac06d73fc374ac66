from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path

import pytest
import torch

from tests.workers.training.parity import check_parity
from workers.training.strategies import compilation

CPU = torch.device("cpu")


def check_compiled(axis: str, folder: Path, *, is_quick: bool = False) -> None:
    """Two ranks with all their blocks compiled, and checkpointed before, are as one without either. ``is_quick`` traces
    and cuts the graphs as ever, and spares the C++ of them."""
    setup = functools.partial(trace_alone if is_quick else let_the_compiler_work, folder)
    apart = {"compile": True, "activation_checkpointing": "selective"}
    check_parity(2, {axis: 2}, limit=1e-5, setup=setup, steps=3, validate_every_steps=0, apart=apart)


def let_the_compiler_work(folder: Path) -> None:
    """In a folder that holds nothing yet; its warnings are about its own code. Without vectors, whose headers take half
    of the compiler's time and change nothing that is compared here."""
    from torch._inductor import config

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    config.cpp.simdlen = 0
    warnings.simplefilter("default")


def trace_alone(folder: Path) -> None:
    """But for the little graph with which a node tries its compiler."""
    let_the_compiler_work(folder)
    torch.nn.Module.compile = functools.partialmethod(torch.nn.Module.compile, backend="aot_eager")  # type: ignore[method-assign,assignment]


@pytest.mark.slow
@pytest.mark.extended
def test_compiled_and_checkpointed_blocks_train_on_two_ranks_as_plain_ones_on_one(tmp_path: Path) -> None:
    """Names too: the gradients of the first step are compared by them. `make parity` compiles the C++ of it all."""
    check_compiled("data", tmp_path, is_quick=True)
    assert any(tmp_path.rglob("*.so")), "nothing was compiled"


def test_a_machine_without_a_compiler_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    forget_compilers()
    try:
        with pytest.raises(ValueError, match=r"train\.compile is true, but this node has no C\+\+ compiler"):
            compilation.compile_blocks([torch.nn.Linear(2, 2)], CPU)
    finally:
        forget_compilers()


def test_a_machine_without_pythons_headers_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ValueError, match=r"train\.compile is true, but this node has no .*/Python\.h"):
        compilation.compile_blocks([torch.nn.Linear(2, 2)], CPU)


def test_a_compiler_that_fails_is_told_by_its_own_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: object) -> object:
        def called(x: torch.Tensor) -> None:
            raise RuntimeError("\ncc1plus: out of memory\nand more")

        return called

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(ValueError, match=r"compiling fails on this node: RuntimeError: cc1plus: out of memory; false"):
        compilation.compile_blocks([torch.nn.Linear(2, 2)], CPU)


def forget_compilers() -> None:
    """torch looks for a compiler once a process."""
    from torch._inductor import cpp_builder

    for name in ("get_cpp_compiler", "cpp_compiler_search"):
        clear = getattr(getattr(cpp_builder, name, None), "cache_clear", None)
        if clear is not None:
            clear()

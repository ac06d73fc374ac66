"""A rank's peak is seen though it is over, and pages of files are no part of it."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

import torch

from workers.training.measuring.memory import LOOK_PERIOD_S, look_for_peak, peak_bytes, restart_peak
from workers.training.measuring.memory_parts import held

CPU = torch.device("cpu")


def test_the_peak_is_seen_though_it_is_over() -> None:
    restart_peak(CPU)
    before = peak_bytes(CPU)
    with mmap.mmap(-1, 64 * 2**20) as pages:
        for _ in range(64):  # a piece at a time: all of them at once might come to lie in the heap, and stay
            pages.write(b"x" * 2**20)
    assert peak_bytes(CPU) - before > 60 * 2**20
    assert held(CPU).own_bytes < before + 32 * 2**20


def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 64 * 2**20)
    restart_peak(CPU)
    before = peak_bytes(CPU), held(CPU).own_bytes
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        assert sum(pages[::4096]) == ord("x") * 64 * 2**20 // 4096
        after = peak_bytes(CPU), held(CPU).own_bytes
    assert max(after[0] - before[0], after[1] - before[1]) < 16 * 2**20


def test_pages_of_files_do_not_count_when_the_system_has_dropped_them(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 64 * 2**20)
    restart_peak(CPU)
    before = peak_bytes(CPU)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        assert sum(pages[::4096]) == ord("x") * 64 * 2**20 // 4096
        time.sleep(LOOK_PERIOD_S)
        look_for_peak(CPU)
        pages.madvise(mmap.MADV_DONTNEED)
        assert peak_bytes(CPU) - before < 16 * 2**20

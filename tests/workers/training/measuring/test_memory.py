"""A rank's peak is seen though it is over, and pages of files are no part of it."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

import pytest
import torch

from workers.training.measuring import memory
from workers.training.measuring.memory import (
    EVERY_STEPS,
    FIRST_STEPS,
    LOOK_PERIOD_S,
    Heap,
    give_back,
    held,
    look_for_peak,
    own_bytes,
    peak_bytes,
    restart_peak,
)

CPU = torch.device("cpu")
MIB = 2**20


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


# A heap that has grown past what the first steps took is given back; one that has not is left alone.


class Machine:
    """What is held, step by step, and how often it was given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = self.needed = 100 * MIB
        self.given_back = 0
        monkeypatch.setattr(memory, "own_bytes", lambda: self.held)
        monkeypatch.setattr(memory, "give_back", self._give_back)

    def _give_back(self) -> None:
        self.given_back += 1
        self.held = min(self.held, self.needed)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize(("has_shards", "times"), [(True, 10), (False, 0)], ids=["shards", "without"])
def test_what_grows_is_given_back_every_few_steps(machine: Machine, has_shards: bool, times: int) -> None:
    one = Heap(CPU, has_shards=has_shards)
    for _ in range(10 * EVERY_STEPS):
        one.after_step()
        machine.held += 2 * MIB
    assert machine.given_back == times
    assert (machine.held < 120 * MIB) is has_shards


def test_what_stays_as_it_was_is_left_alone(machine: Machine) -> None:
    one = Heap(CPU, has_shards=True)
    for step in range(10 * EVERY_STEPS):
        machine.held = (100 if step < FIRST_STEPS else 104) * MIB
        one.after_step()
    assert machine.given_back == 0


def test_the_first_steps_make_what_a_training_needs(machine: Machine) -> None:
    one = Heap(CPU, has_shards=True)
    for step in range(EVERY_STEPS):
        machine.held = (50 + 50 * min(step, FIRST_STEPS - 1)) * MIB
        one.after_step()
    assert machine.given_back == 0


def test_a_gpus_memory_has_an_allocator_of_its_own(machine: Machine) -> None:
    one = Heap(torch.device("cuda"), has_shards=True)
    for _ in range(3 * EVERY_STEPS):
        machine.held += 50 * MIB
        one.after_step()
    assert machine.given_back == 0


def test_free_pages_between_others_go_back_to_the_system() -> None:
    """Pieces too small for pages of their own, every other one of which is freed: the heap cannot end sooner."""
    pieces = [torch.ones(16 * 1024) for _ in range(2048)]  # 64 KiB each
    full = own_bytes()
    pieces[::2] = [torch.empty(0)] * 1024
    give_back()
    assert own_bytes() < full - 32 * MIB
    assert all(piece.sum() == piece.numel() for piece in pieces)

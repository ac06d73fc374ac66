"""Sweeps over operations and sizes: every repeat is made once, however many sweeps there was time for."""

from __future__ import annotations

import pytest
import torch

from workers.training.communication import main
from workers.training.communication.main import NUM_SWEEPS, Sweeps

CPU = torch.device("cpu")
SECONDS = {"all-reduce": 1e-3, "ring": 3e-3}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Operation and repeats of everything that was exchanged; a second rank takes twice as long as this one."""
    found: list[tuple[str, int]] = []

    def timed(operation: str, repeats: int, device: torch.device) -> list[float]:
        found.append((operation, repeats))
        return [SECONDS[operation]] * repeats

    monkeypatch.setattr(main, "make_exchange", lambda operation, size, device: operation)
    monkeypatch.setattr(main, "timed", timed)
    monkeypatch.setattr(main, "gather_all", lambda own: [own, [[2 * one for one in times] for times in own]])
    return found


@pytest.mark.parametrize("calls", [0, 2, NUM_SWEEPS + 3])
@pytest.mark.parametrize("repeats", [3, NUM_SWEEPS, 20, 100])
def test_every_repeat_is_made_whoever_asks_how_often(made: list[tuple[str, int]], calls: int, repeats: int) -> None:
    all_of_them = Sweeps(list(SECONDS), [1024, 4096], repeats, CPU)
    for _ in range(calls):
        all_of_them()
    assert all_of_them.points() == {name: [(1024, 2 * one), (4096, 2 * one)] for name, one in SECONDS.items()}
    for operation in SECONDS:
        counts = [number for name, number in made if name == operation]
        assert sum(counts) == 2 * repeats and max(counts) - min(counts) <= 1 <= min(counts)


def test_lines_go_through_the_medians(made: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([5e-3, 2e-3, 9e-3, 1e-3, *[7e-3] * 16] * 2)
    monkeypatch.setattr(main, "timed", lambda operation, repeats, device: [next(turns) for _ in range(repeats)])
    monkeypatch.setattr(main, "gather_all", lambda own: [own])
    found = Sweeps(["ring"], [1000], 20, CPU)
    assert found.points() == {"ring": [(1000, 7e-3)]}
    assert found.lines() == {"ring": (0.0, pytest.approx(1000 / 7e-3))}


def test_who_watches_hears_how_far_it_is(made: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "REPORT_PERIOD_S", 0.0)
    said: list[str] = []
    Sweeps(["ring"], [1024], 3, CPU, said.append).points()
    assert said == [f"{number} of 3 sweeps over all sizes" for number in (1, 2, 3)]


def test_without_operations_there_are_no_points(made: list[tuple[str, int]]) -> None:
    assert Sweeps([], [1024], 20, CPU).points() == {}
    assert made == []

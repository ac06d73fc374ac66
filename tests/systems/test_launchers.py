"""One training by ten launchers: the losses of each run, read over REST, are torchrun's bit for bit."""

from __future__ import annotations

import pytest

from tests.systems.launchers import LAUNCHERS, Launcher, curve
from tests.whole.runs import Yard

STEPS = 60


@pytest.fixture(scope="module")
def plain() -> list[float]:
    """Filled by the first who asks: the losses of torchrun's run."""
    return []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("launcher", LAUNCHERS[1:], ids=lambda launcher: launcher.name.replace(" ", "-"))
def test_its_losses_are_torchruns(yard: Yard, plain: list[float], launcher: Launcher) -> None:
    with launcher.machines(yard) as cluster:
        plain[:] = plain or curve(yard, LAUNCHERS[0], "local", STEPS)
        found = curve(yard, launcher, cluster, STEPS)
    apart = max(abs(one - other) for one, other in zip(found, plain, strict=True))
    print(f"\n{launcher.name}: {STEPS} losses from {plain[0]:.4f} to {plain[-1]:.4f}, at most {apart:g} apart")
    assert plain[-1] < plain[0] / 2, "it learns"
    assert found == plain

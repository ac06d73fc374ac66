"""A yard of two nodes in a real Valkey, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.life import reconcile
from runs.models import Attempt, Placement, Run
from tests.cast import Cast, make_node, spec
from tests.servers import Valkey
from tests.voices import Voice


class Yard:
    """Two nodes with two CPU slots each. ``run`` wants one slot on both."""

    def __init__(self, cast: Cast, run: Run) -> None:
        self.cast = cast
        self.run = run
        self.now: datetime = timezone.now()
        self.voices = [Voice(make_node(cast.cluster, name)) for name in ("node-a", "node-b")]

    @property
    def status(self) -> str:
        self.run.refresh_from_db()
        return self.run.status

    @property
    def attempt(self) -> Attempt:
        return self.run.attempts.latest("number")

    @property
    def placements(self) -> list[Placement]:
        return list(self.attempt.placements.select_related("node", "attempt__run"))

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def tick(self, *silent: int) -> str:
        """Let a second pass; every node but the silent ones speaks. Returns the run's status."""
        self.later(1)
        for number, voice in enumerate(self.voices):
            if number not in silent:
                voice.up(self.now)
        assert reconcile.tick(self.now)
        return self.status

    def say(self, phase: str, *numbers: int, **changes: Any) -> None:
        """Let the supervisors on these nodes (on all, when none is named) report."""
        for placement in self.placements:
            if not numbers or placement.node_rank in numbers:
                self.voices[placement.node_rank].report(placement, phase, self.now, **changes)

    def start(self) -> None:
        """Bring the run to RUNNING."""
        assert self.tick() == "SCHEDULED"
        self.say("ready")
        assert self.tick() == "STARTING"
        self.say("running")
        assert self.tick() == "RUNNING"


@pytest.fixture
def yard(transactional_db: None, valkey: Valkey, cast: Cast, make_run: Callable[..., Run]) -> Yard:
    return Yard(cast, make_run(spec=spec(resources={"nodes": 2, "processes_per_node": 1, "accelerator": "auto"})))

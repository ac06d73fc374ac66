"""What a node knows of itself beside its inventory and its health: folders, clock, GPUs' faults, and its peers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import redis
from msgspec.structs import replace

from trainyard.contract.desired import CollectivePlan, ProbeRequest
from trainyard.contract.machines import SelfCheck
from workers.machine.gpu_faults import GpuFaultReader
from workers.node.preflight.clock import clock_ahead_s
from workers.node.preflight.collective import Collective
from workers.node.preflight.folders import check_folder
from workers.node.preflight.listener import ProbeListener
from workers.node.preflight.peers import Peers

LOOK_EVERY_S = 5.0


class SelfChecker:
    """``step`` looks at what is due, in a thread that may wait for a slow disk or a silent peer; ``latest`` is read by
    the thread that sends the node's status. ``sooner`` is set when something is due at once."""

    def __init__(
        self, client: redis.Redis, *, node: str, address: str, home: Path, checkpoints: Path, gpus: GpuFaultReader
    ) -> None:
        self._client = client
        self._home = home
        self._checkpoints = checkpoints
        self._gpus = gpus
        self._listener = ProbeListener(node, address)
        self._peers = Peers()
        self._collective = Collective(address)
        self._plan: CollectivePlan | None = None
        self._asked = ""
        self._looked_at = float("-inf")  # monotonic
        self.sooner = threading.Event()
        self.latest = SelfCheck(at=time.time(), port=self._listener.port, meeting_port=self._collective.port)

    def start(self) -> None:
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()
        self._peers.stop()
        self._collective.stop()
        self.sooner.set()

    def take(self, request: ProbeRequest) -> None:
        """Remember to which nodes connections are tried. What somebody waits for is begun at once."""
        self._peers.set(request.peers)
        self._plan, self._asked = request.collective, request.id
        if self._is_asked() or self._peers.is_due():
            self.sooner.set()

    def step(self) -> None:
        """Look at what is due. Raises redis.RedisError, and then looks again next time."""
        asked, plan, is_asked = self._asked, self._plan, self._is_asked()
        found = self.latest
        if is_asked or time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            found = self._look()
            self._looked_at = time.monotonic()
        self._peers.try_all(only_due=not is_asked)
        self.latest = replace(found, at=time.time(), peers=self._peers.results())
        if is_asked:
            collective = None if plan is None else self._collective.run(plan)
            self.latest = replace(self.latest, at=time.time(), collective=collective, answers=asked)

    def _is_asked(self) -> bool:
        return self._asked not in ("", self.latest.answers)

    def _look(self) -> SelfCheck:
        return replace(
            self.latest,
            home=check_folder(self._home),
            checkpoints=check_folder(self._checkpoints),
            clock_ahead_s=self._clock_ahead_s(),
            gpus=self._gpus.read(),
        )

    def _clock_ahead_s(self) -> float | None:
        try:
            return round(clock_ahead_s(self._client), 4)
        except redis.ResponseError:  # the node's Valkey user is of a server that did not let nodes ask for the time
            return None

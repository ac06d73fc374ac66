"""Starts what people run beside the ranks: each session is a child of the supervisor, so that it ends with it."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import structlog

from trainyard.contract.base import encode
from trainyard.contract.sessions.documents import SessionOrder
from trainyard.contract.statuses import Phase
from workers.interactive.request import RelayRequest
from workers.rank_process.run import RankPlan
from workers.sandbox.namespaces import inside_pid
from workers.sandbox.process import ROOT
from workers.supervisor.ranks.state import RankState

log = structlog.get_logger(__name__)

MAX_SESSIONS = 16  # at a time, beside the ranks of one attempt on this node


class Sessions:
    """``home`` is the node's: a session reads there where its frames go, once its command is in its sandbox."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._plans: dict[int, RankPlan] = {}
        self._begun: set[str] = set()
        self._relays: list[subprocess.Popen[bytes]] = []

    def know(self, plans: Sequence[RankPlan]) -> None:
        """Remember what the ranks have been started with."""
        self._plans = {plan.rank: plan for plan in plans}

    def begin(self, order: SessionOrder, phase: Phase, ranks: Sequence[RankState]) -> str:
        """Start a session. Return why that is not possible, empty where it is."""
        if order.session in self._begun:  # the command came twice
            return ""
        self._find_inner(ranks)
        living: Mapping[int, int] = {rank.rank: rank.main_pid for rank in ranks if rank.ended_at is None}
        self._relays = [relay for relay in self._relays if relay.poll() is None]
        if phase != Phase.RUNNING or order.rank not in living or order.rank not in self._plans:
            return f"Rank {order.rank} does not run here now."
        if self._plans[order.rank].container is not None and not self._is_inside(order.rank, ranks):
            return f"The container of rank {order.rank} is starting. Try again in a moment."
        if len(self._relays) >= MAX_SESSIONS:
            return f"{MAX_SESSIONS} sessions are open beside the ranks of this node. End one of them first."
        self._begun.add(order.session)
        try:
            self._relays.append(self._start(order, living[order.rank]))
        except OSError as error:
            log.warning("session.unstarted", session=order.session, error=str(error))
            return f"The session cannot be started: {error.strerror or error}."
        log.info("session.started", session=order.session, rank=order.rank, relay=self._relays[-1].pid)
        return ""

    def _find_inner(self, ranks: Sequence[RankState]) -> None:
        for rank in ranks:
            if (plan := self._plans.get(rank.rank)) is not None and plan.container is not None:
                rank.find_inner(plan.folder.pid_path(rank.rank))

    def _is_inside(self, number: int, ranks: Sequence[RankState]) -> bool:
        return any(rank.inner_pid for rank in ranks if rank.rank == number)

    def _start(self, order: SessionOrder, pid: int) -> subprocess.Popen[bytes]:
        plan = self._plans[order.rank]
        request = RelayRequest(
            home=self._home,
            folder=str(plan.folder.code),
            order=order,
            environment={**plan.environment, "RANK_PID": str(inside_pid(pid))},
            sandbox=plan.sandbox,
            container=plan.container,
        )
        with tempfile.TemporaryFile() as file:  # a pipe could be full, and no session may keep the supervisor waiting
            file.write(encode(request).encode())
            file.seek(0)
            return subprocess.Popen(
                [sys.executable, "-m", "workers.interactive.relay"],
                cwd=ROOT, stdin=file, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

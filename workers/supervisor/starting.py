"""From the order to ranks that run: their environment is prepared, the server says go, and they are started."""

import time
from pathlib import Path

from trainyard.contract.calls import GivenSecret
from trainyard.contract.orders import Go, Order
from workers.attempt.documents import StartRequest
from workers.attempt.folder import AttemptFolder
from workers.rank_process.group_formation import can_watch
from workers.rank_process.run import RankPlan
from workers.supervisor.container import build_for
from workers.supervisor.ranks.confinement import Confinement
from workers.supervisor.ranks.environment import Launch
from workers.supervisor.ranks.launch import RankStart, plan_rank, replica_plan, reserve_ports, start_of_ranks
from workers.supervisor.ranks.state import RankState


class Starting:
    """``go`` is set by who hears it. ``plan`` and then ``start`` fill ``launch`` and ``ranks``, which others read."""

    def __init__(
        self,
        request: StartRequest,
        order: Order,
        folder: AttemptFolder,
        confinement: Confinement,
        secrets: list[GivenSecret],
    ) -> None:
        self.order, self.folder, self.confinement = order, folder, confinement
        self.go: Go | None = None
        self.launch = RankStart()
        self.ranks: list[RankState] = []  # of this node
        self._request, self._secrets = request, secrets
        self.environment = build_for(order, folder, request)
        if self.environment is not None:
            self.environment.secrets = secrets
        self._reserved = reserve_ports(request.address, order)
        self.early: dict[int, int] = {}  # how those ended that were to become ranks, by pid

    @property
    def ports(self) -> list[int]:
        """Free ports: MASTER_PORT and those of ranks. None once the ranks take them."""
        return [one.getsockname()[1] for one in self._reserved]

    def take_exit(self, pid: int, status: int) -> bool:
        """Take in that a child has ended. It is no news for the report: the builder's are its environment's."""
        if self.environment is None or not self.environment.take_exit(pid, status):
            self.early[pid] = status  # somebody killed one that waits to become a rank
        return False

    def plan(self) -> list[RankPlan]:
        """Decide how the ranks begin, and return what each is started with."""
        assert self.go is not None
        self.launch = start_of_ranks(self.order, self.folder, self.environment)
        launch = Launch(
            order=self.order,
            go=self.go,
            folder=self.folder,
            cache=Path(self._request.cache),
            checkpoints=Path(self._request.checkpoints),
            temporary=self.confinement.name_temporary(),
            address=self.confinement.address,
            isolation=self.confinement.isolation,
            replicas=replica_plan(self._request, self.order, self.go),
            secrets=self._secrets,
        )
        plans = [plan_rank(local_rank, launch, self.launch) for local_rank in range(self.order.num_ranks)]
        return [self.confinement.confined(plan) for plan in plans]

    def start(self, plans: list[RankPlan]) -> None:
        while self._reserved:
            self._reserved.pop().close()
        is_watched = "script" in self.order.spec["task"] and not self.launch.is_cold and can_watch()
        for plan in plans:
            state = RankState(
                rank=plan.rank,
                pid=self.confinement.waiting.start(plan),
                started_at=time.time(),
                group="none" if is_watched else "unknown",
                has_torchrun="RANK" in plan.environment,
            )
            self.ranks.append(state)

"""An engine whose system is a list in this process: jobs that a test moves on, loses, or lets answer not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import actions
from runs.engines import ENGINES
from runs.engines.allocating import AllocatingEngine
from runs.engines.allocations import run_round, secret_of
from runs.engines.cluster_settings.settings import Guarded, Offer, Settings, field
from runs.engines.findings import Finding, Probe
from runs.engines.machine_system import JobState, MachineRequest, SystemJob
from runs.engines.refusals import SystemAway, SystemRefused
from runs.life import reconcile
from runs.models import Allocation, Cluster, Node, Run
from tests.cast import Cast, spec
from tests.servers import Valkey
from tests.voices import Voice


@dataclass(frozen=True, kw_only=True)
class MachinesSettings(Settings):
    machines: int = field("Machines", default=4)

    def offers(self) -> list[Offer]:
        return [Offer(self.machines, 2)]

    def guarded(self) -> Guarded:
        return Guarded()


class Machines(AllocatingEngine):
    """Both the engine and its system."""

    label = "Machines"
    settings_type = MachinesSettings

    def __init__(self) -> None:
        self.table: dict[str, SystemJob] = {}
        self.tokens: dict[str, list[str]] = {}
        self.cancelled: list[str] = []
        self.refusal = ""
        self.is_away = False
        self.loses_answers = False
        self.is_away_for_submissions = False
        self.num_completed = 0
        self.num_submitted = 0

    def system(self, cluster: Cluster) -> Machines:
        return self

    def steps(self, probe: Probe) -> Iterator[Finding]:
        yield Finding("system", True, "It is a list.")

    def jobs(self) -> list[SystemJob]:
        self._answer()
        return list(self.table.values())

    def find(self, job: str) -> SystemJob | None:
        return None

    def submit(self, request: MachineRequest) -> str:
        self._answer()
        if self.refusal:
            raise SystemRefused(self.refusal)
        if self.is_away_for_submissions:
            raise SystemAway("The machines did not answer.")
        begun = next((job for job in self.table.values() if job.attempt == request.attempt and job.is_incomplete), None)
        if begun is not None:
            self.num_completed += 1
            self.change(begun.id, is_incomplete=False)
            return begun.id
        self.num_submitted += 1
        job = str(self.num_submitted)
        self.table[job] = SystemJob(job, request.attempt, JobState.PENDING, reason="Resources", sentence="it waits.")
        self.tokens[job] = list(request.tokens)
        if self.loses_answers:
            raise SystemAway("The machines did not answer.")
        return job

    def cancel(self, job: str) -> None:
        self._answer()
        self.cancelled.append(job)
        self.change(job, state=JobState.OVER)

    def change(self, job: str, **changes: object) -> None:
        self.table[job] = replace(self.table[job], **changes)  # type: ignore[arg-type]

    def _answer(self) -> None:
        if self.is_away:
            raise SystemAway("The machines did not answer.")


class Scene:
    """One run of two nodes on a cluster whose machines come with it, and a clock that the test moves."""

    def __init__(self, cast: Cast, cluster: Cluster, engine: Machines, run: Run) -> None:
        self.cast, self.cluster, self.engine, self.run = cast, cluster, engine, run
        self.now: datetime = timezone.now()
        self.voices: list[Voice] = []

    @property
    def allocation(self) -> Allocation:
        return Allocation.objects.latest("pk")

    @property
    def status(self) -> str:
        self.run.refresh_from_db()
        return self.run.status

    def round(self) -> Allocation | None:
        run_round(self.cluster, self.engine, lambda: None, looks_for_others=True)
        return Allocation.objects.order_by("pk").last()

    def tick(self) -> str:
        self.now += timedelta(seconds=1)
        for voice in self.voices:
            voice.up(self.now)
        assert reconcile.tick(self.now)
        return self.status

    def join(self) -> list[Node]:
        """Let both machines join, as ``trainyard node --for-attempt`` does."""
        attempt = self.run.attempts.latest("number")
        nodes = []
        for number, placement in enumerate(attempt.placements.all()):
            nodes.append(actions.join_node(secret=secret_of(placement), name=f"c{number + 1}", attempt=attempt.pk))
        self.voices = [Voice(node) for node in nodes]
        return nodes

    def say(self, phase: str, **changes: object) -> None:
        for placement in self.run.attempts.latest("number").placements.select_related("node", "attempt__run"):
            self.voices[placement.node_rank].report(placement, phase, self.now, **changes)

    def start(self) -> None:
        """Bring the run to RUNNING."""
        assert self.tick() == "SCHEDULED"
        self.round()
        job = self.allocation.job
        self.engine.change(job, state=JobState.RUNNING, hosts=("c[1-2]",), started_at=self.now.timestamp())
        self.round()
        self.join()
        self.tick()
        self.say("ready")
        assert self.tick() == "STARTING"
        self.say("running")
        assert self.tick() == "RUNNING"


@pytest.fixture
def scene(
    transactional_db: None, valkey: Valkey, cast: Cast, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> Scene:
    engine = Machines()
    monkeypatch.setitem(ENGINES, "slurm", engine)
    cluster = actions.create_cluster(
        actor=cast.owner, name="hpc", engine="slurm", settings={"machines": 4}, projects=[cast.project.name]
    )
    document = spec(cluster="hpc", resources={"nodes": 2, "processes_per_node": 1, "accelerator": "auto"})
    return Scene(cast, cluster, engine, make_run(spec=document, cluster=cluster))


@pytest.fixture(scope="session")
def shared_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.aws.account import running_account  # boto3 takes a second of a processor, and few tests need it

    with running_account(tmp_path_factory.mktemp("aws")) as account:
        yield account


@pytest.fixture
def account(shared_account: Any) -> Iterator[Any]:
    """One whose jobs never start."""
    shared_account.reset()
    shared_account.faults(waits=["Pending", "Insufficient capacity for ml.m5.xlarge"])
    yield shared_account

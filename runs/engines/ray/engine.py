"""The engine ``ray``."""

from __future__ import annotations

from collections.abc import Iterator

from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.secrets import SecretUnreadable, secret_of
from runs.engines.findings import Finding, Probe
from runs.engines.machine_system import MachineRequest, Origin, SystemAway, SystemJob, SystemRefused, origin_of
from runs.engines.node_command import node_variables, node_words
from runs.engines.ray.doctor import examine
from runs.engines.ray.programs import Place, Program, program_of
from runs.engines.ray.reasons import system_job
from runs.engines.ray.settings import RaySettings
from runs.engines.ray.trainyard_ray.documents import Answer, Call, Request
from runs.models import Cluster
from trainyard.contract.base import BadDocument, JsonObject, decode


class RayEngine(AllocatingEngine):
    label = "Ray"
    about = "A placement group of a Ray cluster brings machines for each run, which leave with it."
    settings_type = RaySettings
    access = ("token", "Enter it again where the cluster is edited.")

    def system(self, cluster: Cluster) -> RaySystem:
        settings = RaySettings.of(cluster.settings)
        return RaySystem(settings, origin_of(cluster), program_of(place_of(cluster, settings)))


def place_of(cluster: Cluster, settings: RaySettings) -> Place:
    """Return how the cluster's Ray is reached. Raises SystemAway."""
    try:
        return Place(settings.address, settings.ray_python, secret_of(cluster, "token"))
    except SecretUnreadable as error:
        raise SystemAway(str(error)) from error


class RaySystem:
    def __init__(self, settings: RaySettings, origin: Origin, program: Program) -> None:
        self._settings = settings
        self._cluster, self._server = origin.cluster, origin.server
        self._prefix = f"trainyard-{origin.mark}-"
        self._program = program

    def steps(self, probe: Probe) -> Iterator[Finding]:
        try:
            yield from examine(self._settings, self._program, probe)
        finally:
            self._program.end()

    def jobs(self) -> list[SystemJob]:
        answer = self._program.call(Call("survey", prefix=self._prefix))
        return [system_job(one, one.job.removeprefix(self._prefix), answer.machines) for one in answer.jobs]

    def find(self, job: str) -> SystemJob | None:
        answer = self._program.call(Call("find", job))
        return next((system_job(one, job.removeprefix(self._prefix), ()) for one in answer.jobs), None)

    def submit(self, request: MachineRequest) -> str:
        job = f"{self._prefix}{request.attempt}"
        answer: Answer = self._program.call(Call("submit", job, request=self._request(job, request)))
        if answer.problem:
            raise SystemRefused(
                f"Ray refused the job: {answer.problem.rstrip('.')}. `trainyard doctor --cluster {self._cluster}` "
                "looks for the reason. Then restart the run."
            )
        return job

    def cancel(self, job: str) -> None:
        self._program.call(Call("cancel", job))

    def _request(self, job: str, request: MachineRequest) -> Request:
        settings, folder = self._settings, self._settings.folder
        cores = request.slots * settings.cpus_per_slot
        words = node_words(
            settings.python,
            attempt=request.attempt,
            server=self._server,
            home=f"{folder}/machines",
            slots=request.slots,
        )
        return Request(
            job=job,
            num_machines=request.num_machines,
            demand=settings.demand(request.slots),
            strategy=settings.strategy,
            words=words[1:],
            variables=node_variables(request.tokens, checkpoints=f"{folder}/checkpoints", cores=cores),
            output=f"{folder}/trainyard-{request.attempt}.out",
            python=settings.python,
            runtime_env=runtime_env_of(settings),
        )


def runtime_env_of(settings: RaySettings) -> JsonObject:
    try:
        return decode(settings.runtime_env, JsonObject) if settings.runtime_env else {}
    except BadDocument:  # it was checked when it was stored
        return {}

"""The engine ``slurm``."""

from __future__ import annotations

from collections.abc import Iterator

from runs.engines.allocating import AllocatingEngine
from runs.engines.findings import Finding, Probe
from runs.engines.machine_system import MachineRequest, Origin, SystemAway, SystemJob, SystemRefused, origin_of
from runs.engines.openssh.client import OpenSsh
from runs.engines.openssh.identity import identity_of
from runs.engines.slurm.doctor import examine
from runs.engines.slurm.jobs import parse_accounts, parse_jobs
from runs.engines.slurm.programs import Failed, Programs
from runs.engines.slurm.script import script_of, submission
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.slurm.template import BadField
from runs.models import Cluster

# What sbatch says where trying again later may help; anything else it would say again.
PASSING = (
    "contact slurm controller",
    "timed out",
    "temporarily",
    "zero bytes",
    "connection refused",
    "connection reset",
    "authentication",
    "munge",
    "communication",
    "rate limit",
    "maxjobcount",
)
# The setting that is likely to be wrong, by what sbatch says.
ADVICE = (
    ("account", "account"),
    ("partition", "partition name"),
    ("partition", "invalid partition"),
    ("qos", "qos"),
    ("time_limit", "time limit"),
    ("gres", "gres"),
    ("memory", "memory"),
)
OVER_ALREADY = ("invalid job id", "already completing", "already finished", "already or is completing")


class SlurmEngine(AllocatingEngine):
    label = "Slurm"
    about = "Each run is a job of its queue; the machines come with it and leave with it."
    settings_type = SlurmSettings
    access = ("login node", "Enter the private key, or the path of its file.")

    def system(self, cluster: Cluster) -> SlurmSystem:
        settings = SlurmSettings.of(cluster.settings)
        return SlurmSystem(settings, origin_of(cluster), _programs(cluster, settings))


def _programs(cluster: Cluster, settings: SlurmSettings) -> Programs:
    """Raises SystemAway where there is no key for the login node."""
    login = settings.login
    if login is None:
        return Programs(settings.slurm_conf)
    return Programs(settings.slurm_conf, OpenSsh(login, identity_of(cluster, settings.ssh_key_file)))


class SlurmSystem:
    def __init__(self, settings: SlurmSettings, origin: Origin, programs: Programs) -> None:
        self._settings = settings
        self._cluster, self._mark, self._server = origin.cluster, origin.mark, origin.server
        self._programs = programs

    def steps(self, probe: Probe) -> Iterator[Finding]:
        return examine(self._settings, self._programs, probe)

    def jobs(self) -> list[SystemJob]:
        try:
            text = self._run("squeue", "--me", "--states=all", "--json")
        except Failed as error:
            raise SystemAway(f"Slurm on cluster {self._cluster} does not answer: {error}.") from error
        return parse_jobs(text, self._mark)

    def find(self, job: str) -> SystemJob | None:
        try:
            text = self._run(
                "sacct", "--jobs", job, "-X", "--noheader", "--parsable2", "--format=State,ExitCode,NodeList"
            )
        except (Failed, SystemAway):  # most small clusters keep no accounts
            return None
        return parse_accounts(text, job)

    def submit(self, request: MachineRequest) -> str:
        try:
            words = submission(self._settings, request, self._mark, self._cluster)
        except BadField as error:
            advice = f"Change the name, or the setting where cluster {self._cluster} is edited."
            raise SystemRefused(f"Slurm was not asked. {error} {advice} Then restart the run.") from error
        try:
            text = self._run("sbatch", *words, script=script_of(self._settings, request, self._server))
        except Failed as error:
            sentence = str(error).replace("Batch job submission failed: ", "")
            if any(word in sentence.lower() for word in PASSING):
                raise SystemAway(f"Slurm on cluster {self._cluster} took no job: {sentence}.") from error
            raise SystemRefused(
                f"Slurm refused the job: {sentence}. {self._advice(sentence)} Then restart the run."
            ) from error
        return text.strip().partition(";")[0]

    def cancel(self, job: str) -> None:
        try:
            self._run("scancel", job)
        except Failed as error:
            if not any(words in str(error).lower() for words in OVER_ALREADY):
                raise SystemAway(f"Slurm on cluster {self._cluster} did not cancel job {job}: {error}.") from error

    def _run(self, *words: str, script: str = "") -> str:
        return self._programs.run(words, text=script)

    def _advice(self, sentence: str) -> str:
        """Say which setting of the cluster is likely to be wrong."""
        for name, words in ADVICE:
            value = getattr(self._settings, name)
            if words in sentence.lower() and value:
                return f"Its {name} is {value!r}: change that where cluster {self._cluster} is edited."
        return f"`trainyard doctor --cluster {self._cluster}` looks for the reason."

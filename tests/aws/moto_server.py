"""``python -m tests.aws.moto_server PORT FOLDER``: moto's server, with training jobs that are processes here.

**This is not AWS.** moto keeps SageMaker's, Secrets Manager's, STS' and IAM's objects and checks requests as it does.
Its training jobs end at once and run nothing, it cannot stop them, and it takes one name twice. What is here adds that,
from AWS' documentation alone: states, StopTrainingJob, names that are in use, limits, and a process for each machine.
FOLDER/faults.json says what goes wrong (``Faults``).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from moto.sagemaker import models, responses
from moto.sagemaker.exceptions import ResourceInUseException, SagemakerClientError, ValidationError
from moto.server import main as serve

from tests.aws.machines import Machines

EVERY_S = 0.1
KILLED_AFTER_S = 120.0
OVER = ("Completed", "Failed", "Stopped")


class Faults(msgspec.Struct):
    """What goes wrong. ``waits``: status and message of jobs that do not start."""

    waits: tuple[str, str] | None = None
    refusal: tuple[str, str] | None = None  # code and message for a job that is to be made
    failure: str = ""  # with which jobs fail in place of starting
    takes_back: bool = False  # spot machines


class TrainingJobs:
    """One thread that looks at all training jobs ten times a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machines: dict[str, Machines] = {}
        self._backends: list[Any] = []  # those of regions with jobs; moto's own table loses them when it is reset
        self._lock = threading.RLock()
        self._keep_moto_within_bounds()
        threading.Thread(target=self._run, name="training-jobs", daemon=True).start()

    @property
    def faults(self) -> Faults:
        try:
            return msgspec.json.decode((self._folder / "faults.json").read_bytes(), type=Faults)
        except (OSError, msgspec.MsgspecError):  # it is being written
            return Faults()

    def _keep_moto_within_bounds(self) -> None:
        create = models.SageMakerModelBackend.create_training_job
        answer = responses.SageMakerResponse.create_training_job

        def create_training_job(backend: Any, **values: Any) -> Any:
            with self._lock:
                if not any(one is backend for one in self._backends):
                    self._backends.append(backend)
                if values["training_job_name"] in backend.training_jobs:
                    raise ResourceInUseException("Training job names must be unique within an account and region.")
                if (refusal := self.faults.refusal) is not None:
                    kind = type("Refused", (SagemakerClientError,), {"code": refusal[0]})
                    raise kind(refusal[1])
                job = create(backend, **values)
                job.training_job_status, job.training_start_time, job.training_end_time = "InProgress", None, None
                job.secondary_status_transitions = []
                job.algorithm_specification.pop("MetricDefinitions", None)
                _move(job, "Starting", "Preparing the instances for training")
                return job

        def answer_create(response: Any) -> Any:
            with self._lock:
                result = answer(response)
                made = response.sagemaker_backend.training_jobs[response._get_param("TrainingJobName")]
                made.environment = response._get_param("Environment") or {}
                return result

        def stop_training_job(response: Any) -> Any:
            name = response._get_param("TrainingJobName")
            with self._lock:
                job = response.sagemaker_backend.training_jobs.get(name)
                if job is None:
                    raise ValidationError(message="Requested resource not found.")
                if job.training_job_status != "InProgress":
                    raise ValidationError(message="The request was rejected because the training job is in status ...")
                job.training_job_status = "Stopping"
                _move(job, "Stopping", "Stopping the training job")
            return responses.ActionResult({})

        models.SageMakerModelBackend.create_training_job = create_training_job
        responses.SageMakerResponse.create_training_job = answer_create
        responses.SageMakerResponse.stop_training_job = stop_training_job

    def _run(self) -> None:
        while True:
            time.sleep(EVERY_S)
            for backend in list(self._backends):
                # Where moto is reset, a backend has nothing for a moment.
                for job in list(getattr(backend, "training_jobs", {}).values()):
                    with self._lock:
                        self._follow(job)

    def _follow(self, job: Any) -> None:
        if job.training_job_status in OVER or not hasattr(job, "environment"):
            return
        machines = self._machines.get(job.training_job_name)
        if job.training_job_status == "Stopping":
            self._stop(job, machines)
        elif machines is None:
            self._start(job)
        elif machines.asked_at is None and time.time() - machines.started_at > _limit(job):
            _move(job, "MaxRuntimeExceeded", "Training job runtime exceeded MaxRuntimeInSeconds")
            job.training_job_status = "Stopping"
        elif machines.asked_at is None and self.faults.takes_back and job.enable_managed_spot_training:
            machines.end()
            _move(job, "Interrupted", "Training job interrupted")
        elif job.secondary_status == "Training":
            self._judge(job, machines)

    def _start(self, job: Any) -> None:
        faults = self.faults
        if faults.failure:
            job.failure_reason = faults.failure
            job.training_job_status = "Failed"
            _move(job, "Failed", "Training job failed")
        elif faults.waits is not None:
            if job.secondary_status != faults.waits[0]:
                _move(job, *faults.waits)
        else:
            machines = Machines(job, self._folder)
            self._machines[job.training_job_name] = machines
            job.training_start_time = models.utcnow()
            _move(job, "Training", "Training image download completed. Training in progress.")

    def _judge(self, job: Any, machines: Machines) -> None:
        failed = machines.failure()
        if failed is not None:
            machines.kill()
            job.failure_reason = failed
            job.training_job_status = "Failed"
            _move(job, "Failed", "Training job failed")
        elif machines.are_over():
            job.training_job_status = "Completed"
            _move(job, "Completed", "Training job completed")

    def _stop(self, job: Any, machines: Machines | None) -> None:
        if machines is not None and machines.asked_at is None:
            machines.end()
        if machines is not None and machines.asked_at and time.time() - machines.asked_at > KILLED_AFTER_S:
            machines.kill()
        if machines is None or machines.are_over():
            job.training_job_status = "Stopped"
            last = job.secondary_status
            _move(job, last if last == "MaxRuntimeExceeded" else "Stopped", "Training job stopped")


def _limit(job: Any) -> float:
    return float(job.stopping_condition["MaxRuntimeInSeconds"])


def _move(job: Any, status: str, message: str) -> None:
    now = models.utcnow()
    job.secondary_status, job.last_modified_time = status, now
    job.secondary_status_transitions.append({"Status": status, "StartTime": now, "StatusMessage": message})


if __name__ == "__main__":
    TrainingJobs(Path(sys.argv[2]))
    serve(["-p", sys.argv[1]])

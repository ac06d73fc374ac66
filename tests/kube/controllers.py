"""What turns objects into processes: the work of Kubernetes' Job controller, scheduler, kubelets and garbage collector,
and of Kueue, as far as the engine meets it."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.kube.objects import Object, Objects, condition, has_condition, now, owners
from tests.kube.pods import INDEX, MissingSecret, PodProcess

EVERY_S = 0.1
QUEUE = "kueue.x-k8s.io/queue-name"
OVER = ("Succeeded", "Failed")


@dataclass
class Faults:
    """What goes wrong; tests switch it on and off."""

    unschedulable: str = ""  # the scheduler's text
    image: str = ""  # the kubelet's text
    config: str = ""
    quota: str = ""  # for pods
    refusal: tuple[int, str, str] | None = None  # of requests that make a job
    denied: set[str] = field(default_factory=set)  # "verb resource" that we may not
    is_away: bool = False  # connections are closed without an answer
    loses_answers: bool = False  # what is asked is done, and not answered
    slow_s: float = 0.0  # before each answer
    is_kueue_full: bool = False


class Controllers:
    """One thread that looks at all objects ten times a second."""

    def __init__(self, objects: Objects, folder: Path, faults: Faults) -> None:
        self.objects, self.folder, self.faults = objects, folder, faults
        self.processes: dict[str, PodProcess] = {}  # by the pod's name
        self._deadlines: dict[str, float] = {}  # when a pod is killed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)
        for process in self.processes.values():
            process.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            with self.objects.lock:
                for pod in self.objects.find("pods"):
                    self._follow_pod(pod)
                for job in self.objects.find("jobs"):
                    self._follow_job(job)
                self._collect_orphans()

    # Jobs

    def _follow_job(self, job: Object) -> None:
        pods = self.pods_of(job)
        if "deletionTimestamp" in job["metadata"]:
            self._delete_all(pods)
            if not pods:
                self.objects.remove("jobs", job["metadata"]["name"])
            return
        if has_condition(job, "Complete") or has_condition(job, "Failed"):
            return
        if self._is_suspended(job):
            job["status"].pop("startTime", None)
            self._delete_all(pods)
            return
        job["status"].setdefault("startTime", now())
        self._judge_job(job, pods)

    def _is_suspended(self, job: Object) -> bool:
        """Let Kueue admit the job where it has a queue, or take its machines back."""
        if QUEUE not in job["metadata"].get("labels", {}):
            return bool(job["spec"].get("suspend"))
        uid = job["metadata"]["uid"]
        labels = {"kueue.x-k8s.io/job-uid": uid}
        found = self.objects.find("workloads", lambda one: one["metadata"]["labels"] == labels)
        name = f"job-{job['metadata']['name']}"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": uid}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": metadata}
        workload = found[0] if found else self.objects.create("workloads", body)
        was_running = not job["spec"].get("suspend")
        if self.faults.is_kueue_full:
            text = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default"
            condition(workload, "QuotaReserved", "False", "Pending", text)
            if was_running:
                condition(workload, "Evicted", "True", "Preempted", "Preempted to accommodate a workload")
        else:
            condition(workload, "QuotaReserved", "True", "QuotaReserved", "")
        job["spec"]["suspend"] = self.faults.is_kueue_full
        return self.faults.is_kueue_full

    def _judge_job(self, job: Object, pods: list[Object]) -> None:
        failed = [pod for pod in pods if pod["status"]["phase"] == "Failed"]
        started = time.mktime(time.strptime(job["status"]["startTime"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is not None and time.time() - started > limit:
            condition(job, "FailureTarget", "True", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif failed and not has_condition(job, "FailureTarget"):
            taken = any(has_condition(pod, "DisruptionTarget") for pod in failed)
            reason = "PodFailurePolicy" if taken else "BackoffLimitExceeded"
            condition(job, "FailureTarget", "True", reason, "Job has reached the specified backoff limit")
        if has_condition(job, "FailureTarget"):
            self._delete_all(pods)
            if all(pod["status"]["phase"] in OVER for pod in pods):
                target = next(one for one in job["status"]["conditions"] if one["type"] == "FailureTarget")
                condition(job, "Failed", "True", target["reason"], target["message"])
            return
        done = {pod["metadata"]["annotations"][INDEX] for pod in pods if pod["status"]["phase"] == "Succeeded"}
        done |= set(job["status"].get("completedIndexes", "").split(",")) - {""}
        job["status"]["completedIndexes"] = ",".join(sorted(done))
        if len(done) == job["spec"]["completions"]:
            condition(job, "Complete", "True", "CompletionsReached")
            return
        there = {pod["metadata"]["annotations"][INDEX] for pod in pods}
        for index in range(job["spec"]["completions"]):
            if str(index) not in there | done:
                self._create_pod(job, index)

    def _create_pod(self, job: Object, index: int) -> None:
        name = f"{job['metadata']['name']}-{index}"
        if self.faults.quota:
            text = f'Error creating: pods "{name}" is forbidden: exceeded quota: {self.faults.quota}'
            self.objects.happened(job, "FailedCreate", text)
            return
        template = job["spec"]["template"]
        metadata = {**template["metadata"], "generateName": f"{name}-"}
        metadata["labels"] = {**metadata["labels"], "batch.kubernetes.io/job-name": job["metadata"]["name"]}
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
                 "uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}  # fmt: skip
        metadata["ownerReferences"] = [owner]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        made = self.objects.create("pods", pod)
        made["status"] = {"phase": "Pending"}

    def pods_of(self, job: Object) -> list[Object]:
        uid = job["metadata"]["uid"]
        return self.objects.find("pods", lambda pod: any(one["uid"] == uid for one in owners(pod)))

    def _collect_orphans(self) -> None:
        """End pods whose job was deleted in the background."""
        there = {job["metadata"]["uid"] for job in self.objects.find("jobs")}
        self._delete_all(self.objects.find("pods", lambda pod: not any(one["uid"] in there for one in owners(pod))))

    # Pods

    def delete_pod(self, pod: Object) -> None:
        """Ask it to end, and kill it behind its grace."""
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            return
        grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
        pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": grace_s}
        self._deadlines[name] = time.monotonic() + grace_s
        if name in self.processes:
            self.processes[name].end()
        elif pod["status"]["phase"] not in OVER:
            pod["status"]["phase"] = "Failed"

    def _delete_all(self, pods: list[Object]) -> None:
        for pod in pods:
            self.delete_pod(pod)

    def _follow_pod(self, pod: Object) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        process = self.processes.get(name)
        if status["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            self._start_pod(pod)
        elif status["phase"] == "Running" and process is not None:
            if time.monotonic() > self._deadlines.get(name, float("inf")):
                process.kill()
            if (code := process.exit_code()) is not None:
                status["phase"] = "Failed" if code else "Succeeded"
                reason = status.pop("killedFor", "Error" if code else "Completed")
                ended = {"exitCode": code, "reason": reason, "finishedAt": now()}
                status["containerStatuses"] = [{"name": "node", "state": {"terminated": ended}}]
        if status["phase"] in OVER and "deletionTimestamp" in pod["metadata"] and self._is_counted(pod):
            if process is not None:
                self.processes.pop(name).close()
            self.objects.remove("pods", name)

    def _is_counted(self, pod: Object) -> bool:
        """Whether the Job has seen the end of the pod: until then its finalizer keeps the object."""
        uids = {one["uid"] for one in owners(pod)}
        jobs = self.objects.find("jobs", lambda job: job["metadata"]["uid"] in uids)
        if not jobs or "deletionTimestamp" in jobs[0]["metadata"] or jobs[0]["spec"].get("suspend"):
            return True
        is_done = pod["metadata"]["annotations"][INDEX] in jobs[0]["status"].get("completedIndexes", "").split(",")
        return is_done or has_condition(jobs[0], "Failed")

    def _start_pod(self, pod: Object) -> None:
        status, faults = pod["status"], self.faults
        if faults.unschedulable:
            condition(pod, "PodScheduled", "False", "Unschedulable", faults.unschedulable)
            return
        condition(pod, "PodScheduled")
        pod["spec"]["nodeName"] = f"m{int(pod['metadata']['annotations'][INDEX]) + 1}"
        waiting = {"reason": "ContainerCreating"}
        if faults.image:
            waiting = {"reason": "ErrImagePull", "message": faults.image}
        elif faults.config:
            waiting = {"reason": "CreateContainerConfigError", "message": faults.config}
        status["containerStatuses"] = [{"name": "node", "state": {"waiting": waiting}}]
        if faults.image or faults.config:
            return
        secrets = {one["metadata"]["name"]: _texts(one) for one in self.objects.find("secrets")}
        name = pod["metadata"]["name"]
        folder = self.folder / "pods" / name
        try:
            self.processes[name] = PodProcess(pod, secrets, folder, self.folder / "claims")
        except MissingSecret as error:
            self.objects.happened(pod, "FailedMount", f'MountVolume.SetUp failed: secret "{error}" not found')
            return
        status["phase"] = "Running"
        status["containerStatuses"] = [{"name": "node", "state": {"running": {"startedAt": now()}}}]


def _texts(secret: Object) -> dict[str, str]:
    data = {name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()}
    return {**data, **secret.get("stringData", {})}

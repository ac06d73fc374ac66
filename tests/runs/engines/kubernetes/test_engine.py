"""Submitting, looking and deleting over HTTP: what is repeated, what is refused, and what is asked again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runs.causes.allocations import EndKind
from runs.engines.findings import Finding, Probe
from runs.engines.kubernetes.api import Api
from runs.engines.kubernetes.engine import KubernetesSystem
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import JobState, Origin, SystemJob
from runs.engines.refusals import SystemAway, SystemRefused, until_failed
from tests.kube.api_server import Kubernetes
from tests.runs.engines.kubernetes.conftest import ORIGIN, REQUEST, MakeSettings

NAME = "trainyard-abc123"
ALL = [f"jobs/{NAME}", f"secrets/{NAME}", f"services/{NAME}"]


def steps(settings: KubernetesSettings, tmp_path: Path) -> list[Finding]:
    system = KubernetesSystem(settings, ORIGIN, Api(settings, tmp_path / "own"))
    return list(until_failed(system.steps(Probe("http://server:8000", "valkey:6379"))))


def until_waiting(system: KubernetesSystem, words: str) -> SystemJob:
    deadline = time.monotonic() + 20
    while True:
        (job,) = system.jobs()
        if words in job.sentence:
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.05)


def test_a_job_is_made_with_all_that_it_owns_and_goes_with_it(system: KubernetesSystem, kubernetes: Kubernetes) -> None:
    assert system.jobs() == []
    assert system.submit(REQUEST) == NAME
    assert sorted(kubernetes.names("jobs", "secrets", "services")) == ALL
    job = until_waiting(system, "Insufficient cpu (Unschedulable).")
    assert (job.id, job.attempt, job.state, job.reason) == (NAME, "abc123", JobState.PENDING, "Unschedulable")
    assert system.find(NAME) is None, "it is there"
    system.cancel(NAME)
    deadline = time.monotonic() + 20
    while kubernetes.names():
        assert time.monotonic() < deadline, kubernetes.names()
        time.sleep(0.05)
    system.cancel(NAME)


def test_a_name_that_others_have_taken_is_refused(
    system: KubernetesSystem, kubernetes: Kubernetes, make_settings: MakeSettings, tmp_path: Path
) -> None:
    system.submit(REQUEST)
    settings = make_settings()
    other = KubernetesSystem(settings, Origin("f" * 12, "pods", ""), Api(settings, tmp_path / "own"))
    with pytest.raises(SystemRefused, match=f"another job {NAME} already"):
        other.submit(REQUEST)


def test_an_answer_that_was_lost_is_found_and_not_repeated(system: KubernetesSystem, kubernetes: Kubernetes) -> None:
    kubernetes.faults.loses_answers = True
    with pytest.raises(SystemAway, match="does not answer"):
        system.submit(REQUEST)
    kubernetes.faults.loses_answers = False
    (job,) = system.jobs()
    assert job.is_incomplete and job.state == JobState.PENDING, "it has started nothing"
    assert kubernetes.names("pods") == []
    assert system.submit(REQUEST) == NAME == system.submit(REQUEST)
    (job,) = system.jobs()
    assert not job.is_incomplete
    assert sorted(kubernetes.names("jobs", "secrets", "services")) == ALL


@pytest.mark.parametrize(
    ("refusal", "kind", "words"),
    [
        ((403, "Forbidden", 'jobs.batch is forbidden: exceeded quota: team'), SystemAway, "quota: team"),
        ((403, "Forbidden", 'User "x" cannot create jobs'), SystemRefused, "trainyard doctor --cluster pods"),
        ((404, "NotFound", 'namespaces "training" not found'), SystemRefused, "not found"),
        ((422, "Invalid", "Job is invalid: spec.template.spec.tolerations[0]"), SystemRefused, "tolerations"),
        ((401, "Unauthorized", "Unauthorized"), SystemAway, "Unauthorized"),
        ((500, "InternalError", "admission webhook failed"), SystemAway, "webhook"),
        ((429, "TooManyRequests", "slow down"), SystemAway, "slow down"),
    ],
)  # fmt: skip
def test_what_may_pass_is_asked_again_and_the_rest_is_refused(
    system: KubernetesSystem, kubernetes: Kubernetes, refusal: tuple[int, str, str], kind: type[Exception], words: str
) -> None:
    kubernetes.faults.refusal = refusal
    with pytest.raises(kind, match=words):
        system.submit(REQUEST)
    assert kubernetes.names() == []


def test_a_submission_that_is_refused_half_way_leaves_nothing(system: KubernetesSystem, kubernetes: Kubernetes) -> None:
    kubernetes.faults.denied = {"create secrets"}
    with pytest.raises(SystemRefused, match="cannot create"):
        system.submit(REQUEST)
    deadline = time.monotonic() + 20
    while kubernetes.names():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_manifest_that_does_not_fit_is_refused_by_name(
    kubernetes: Kubernetes, make_settings: MakeSettings, tmp_path: Path
) -> None:
    settings = make_settings(pod="tolerations: [{key: 3}]")
    with pytest.raises(SystemRefused, match="tolerations"):
        KubernetesSystem(settings, ORIGIN, Api(settings, tmp_path / "own")).submit(REQUEST)


def test_a_job_that_somebody_deleted_is_known_by_its_absence(system: KubernetesSystem, kubernetes: Kubernetes) -> None:
    system.submit(REQUEST)
    kubernetes.delete_job(NAME)
    found = system.find(NAME)
    assert found is not None and (found.state, found.end) == (JobState.OVER, EndKind.CANCELLED)
    assert "kubectl delete job" in found.end_sentence
    assert kubernetes.names("secrets", "services") == []


def test_reasons_need_no_rights_beyond_those_to_submit(system: KubernetesSystem, kubernetes: Kubernetes) -> None:
    kubernetes.faults.unschedulable, kubernetes.faults.quota = "", "team, requested: cpu=8"
    system.submit(REQUEST)
    assert until_waiting(system, "quota").reason == "QuotaExceeded"
    kubernetes.faults.denied = {"list events"}
    (job,) = system.jobs()
    assert (job.state, job.reason) == (JobState.PENDING, "Forbidden") and "cannot list" in job.sentence


def test_an_api_server_that_is_away_or_slow_costs_a_limited_time(
    system: KubernetesSystem, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes.faults.is_away = True
    with pytest.raises(SystemAway, match="does not answer"):
        system.jobs()
    kubernetes.faults.is_away, kubernetes.faults.slow_s = False, 2.0
    monkeypatch.setattr("runs.engines.kubernetes.api.LIMIT_S", (0.2, 0.2))
    started = time.monotonic()
    with pytest.raises(SystemAway, match="timed out"):
        system.jobs()
    assert time.monotonic() - started < 1.9


def test_kueue_holds_the_job_in_words_and_takes_it_back(
    kubernetes: Kubernetes, make_settings: MakeSettings, tmp_path: Path
) -> None:
    kubernetes.faults.is_kueue_full = True
    settings = make_settings(queue="team")
    system = KubernetesSystem(settings, ORIGIN, Api(settings, tmp_path / "own"))
    system.submit(REQUEST)
    job = until_waiting(system, "Kueue has it in queue team: couldn't assign flavors")
    assert job.reason == "Pending"
    kubernetes.faults.is_kueue_full = False
    until_waiting(system, "Insufficient cpu")
    kubernetes.faults.is_kueue_full = True
    deadline = time.monotonic() + 20
    while (job := system.jobs()[0]).state != JobState.OVER:
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    assert job.end == EndKind.PREEMPTED and "Preempted to accommodate" in job.end_sentence


def test_a_kubeconfig_in_the_servers_own_data_is_not_read(make_settings: MakeSettings, tmp_path: Path) -> None:
    """People upload files there, and a kubeconfig may name programs that are run."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "config").write_text((tmp_path / "kubeconfig").read_text())
    with pytest.raises(SystemAway, match="lies in the server's own data"):
        Api(make_settings(kubeconfig=str(own / "config")), own)
    with pytest.raises(SystemAway, match="cannot be asked"):
        Api(make_settings(kubeconfig=str(tmp_path / "gone")), own)


def test_the_doctor_names_rights_that_are_missing_and_a_template_that_does_not_fit(
    kubernetes: Kubernetes, make_settings: MakeSettings, tmp_path: Path
) -> None:
    kubernetes.faults.denied = {"create secrets", "list events"}
    found = steps(make_settings(), tmp_path)
    assert [(one.step, one.is_fine) for one in found] == [("API server", True), ("rights", False)]
    assert "may not: create secrets, list events" in found[1].sentence and "rbac.yaml" in found[1].advice
    kubernetes.faults.denied = set()
    wrong = make_settings(pod="tolerations: [{key: 3}]")
    found = steps(wrong, tmp_path)
    assert (found[-1].step, found[-1].is_fine) == ("manifest", False) and "tolerations" in found[-1].sentence
    assert kubernetes.names() == []
    kubernetes.faults.is_away = True
    found = steps(make_settings(), tmp_path)
    assert [(one.step, one.is_fine) for one in found] == [("API server", False)]

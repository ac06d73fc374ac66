"""Slurm's programs as they may be: missing, slow, or full of complaints. They are scripts here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runs.engines.findings import Probe, valkey_place
from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.refusals import Refusal, SystemAway, SystemRefused, until_failed
from runs.engines.slurm.engine import Programs, SlurmSystem, words_of
from runs.engines.slurm.settings import SlurmSettings

REQUEST = MachineRequest("abc123", "hello", 2, 1, ["join_one", "join_two"])


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def make(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def system() -> SlurmSystem:
    settings = SlurmSettings(folder="/shared", partition="main")
    return SlurmSystem(settings, Origin("mark", "hpc", "http://127.0.0.1:8000"), Programs())


def test_a_program_that_does_not_answer_is_given_up(programs: Path) -> None:
    make(programs, "squeue", "exec sleep 60")
    began = time.monotonic()
    with pytest.raises(SystemAway, match=r"Slurm did not answer squeue within 0.3 s\."):
        Programs().run(["squeue"], limit_s=0.3)
    assert time.monotonic() - began < 10


def test_a_missing_program_is_named(programs: Path) -> None:
    with pytest.raises(SystemAway, match="the program no-such-program is not on this server"):
        Programs().run(["no-such-program"])


def test_nothing_of_the_servers_environment_reaches_a_job(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "secret")
    make(programs, "squeue", "env")
    text = Programs("/etc/other.conf").run(["squeue"])
    assert "secret" not in text and "SLURM_CONF=/etc/other.conf" in text


def test_the_slurm_conf_of_the_servers_environment_is_used_where_the_cluster_names_none(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(programs, "squeue", "env")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    assert "SLURM_CONF" not in Programs().run(["squeue"])
    monkeypatch.setenv("SLURM_CONF", "/opt/site/slurm.conf")
    assert "SLURM_CONF=/opt/site/slurm.conf\n" in Programs().run(["squeue"])
    assert "SLURM_CONF=/etc/other.conf\n" in Programs("/etc/other.conf").run(["squeue"])


def test_complaints_lose_the_name_of_the_program() -> None:
    text = "sbatch: error: invalid partition specified: gone\nsbatch: error: Batch job submission failed: No.\n"
    assert words_of(text) == "invalid partition specified: gone; Batch job submission failed: No"


def test_a_controller_that_is_away_is_asked_again(programs: Path) -> None:
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    make(programs, "squeue", f"echo '{words}' >&2; exit 1")
    with pytest.raises(SystemAway, match="cluster hpc does not answer: Unable to contact slurm controller"):
        system().jobs()
    make(programs, "sbatch", "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1")
    with pytest.raises(SystemAway, match="took no job"):
        system().submit(REQUEST)


def test_a_refused_submission_says_which_setting_to_change(programs: Path) -> None:
    make(programs, "sbatch", "echo 'sbatch: error: invalid partition specified: main' >&2; exit 1")
    with pytest.raises(SystemRefused, match="Its partition is 'main': change that where cluster hpc is edited"):
        system().submit(REQUEST)


def test_a_job_that_slurm_does_not_cancel_is_a_sentence(programs: Path) -> None:
    make(programs, "scancel", "echo 'scancel: error: Access denied' >&2; exit 1")
    with pytest.raises(SystemAway, match="did not cancel job 17: Access denied"):
        system().cancel("17")


def test_accounts_that_nobody_keeps_are_no_error(programs: Path) -> None:
    make(programs, "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert system().find("17") is None
    with pytest.raises(Refusal):
        Programs().run(["sacct"])


def test_the_doctor_stops_at_the_first_step_that_others_need(programs: Path) -> None:
    for name in ("sbatch", "squeue", "scancel"):
        make(programs, name, "echo 'slurm-wlm 22.05.8'; exit 0")
    found = list(until_failed(system().steps(Probe("http://127.0.0.1:1", "/x"))))
    assert [(one.step, one.is_fine) for one in found] == [("programs", True), ("controller", False)]
    assert "munge" in found[1].advice


def test_the_place_of_valkey_has_no_password() -> None:
    assert valkey_place("redis://user:secret@host:6380/0") == "host:6380"
    assert valkey_place("unix:///run/valkey.sock?db=1") == "/run/valkey.sock"

"""Runs on a real Slurm of four machines: limits, preemption, failures, and what is left of them."""

from __future__ import annotations

import signal
import time

import pytest

from tests.whole.doctor import doctor
from tests.whole.runs import long_run, node_folders, small
from tests.whole.slurm.conftest import SlurmYard

pytestmark = pytest.mark.extended  # minutes of several processes


def test_a_run_on_slurm_ends_as_it_does_on_nodes_that_stay(yard: SlurmYard) -> None:
    before = node_folders(yard.slurm.shared)
    there = yard.submit(small("hpc"))
    here = yard.submit(small("local"))
    for run in (there, here):
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    assert len(losses := yard.losses(there)) == 40 and losses == yard.losses(here)
    yard.wait_until_nothing_is_left()
    yard.wait_for(lambda: node_folders(yard.slurm.shared) <= before, "a node's folder is left")
    yard.wait_for(lambda: not yard.get("/nodes", cluster="hpc")["items"], "a node is left in the list")


def test_scancel_cancels_the_run_and_says_so(yard: SlurmYard) -> None:
    run = yard.submit(small("hpc", steps=100_000))
    yard.wait_for_step(run, 5)
    yard.slurm.call("scancel", yard.job_of(run))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED", ended["reason"]
    assert "Slurm's own tools" in ended["reason"]["sentence"]
    yard.wait_until_nothing_is_left()


def test_a_notice_saves_a_checkpoint_and_another_job_goes_on(yard: SlurmYard) -> None:
    """What `--signal` does before the time limit, and a person may do at any time."""
    run = yard.submit(long_run("hpc"))
    step = yard.wait_for_step(run, 30)["step"]
    job = yard.job_of(run)
    yard.slurm.call("scancel", "--signal=URG", job)
    yard.wait_for_attempt(run, 2, step + 5)
    first = yard.attempts(run)[0]
    assert first["cause"]["class"] == "preempted", first
    assert yard.job_of(run) != job
    yard.end(run)


def test_a_job_that_is_preempted_goes_on_once_there_is_room(yard: SlurmYard) -> None:
    run = yard.submit(long_run("hpc"))
    yard.wait_for_step(run, 5)
    yard.take_all_machines(12, "urgent")
    yard.wait_for_attempt(run, 2, 10)
    first = yard.attempts(run)[0]
    assert first["cause"]["class"] in ("preempted", "interrupted"), first
    yard.end(run)


def test_a_run_goes_on_on_another_machine_when_one_fails(yard: SlurmYard) -> None:
    run = yard.submit(long_run("hpc"))
    step = yard.wait_for_step(run, 50)["step"]
    failed = yard.slurm.machines_of(yard.job_of(run))[1]
    yard.slurm.call("scontrol", "update", f"nodename={failed}", "state=down", "reason=test")
    try:
        yard.wait_for_attempt(run, 2, step + 5)
        first = yard.attempts(run)[0]
        assert first["cause"]["class"] in ("node-lost", "interrupted"), first
        assert failed not in yard.slurm.machines_of(yard.job_of(run))
        yard.end(run)
    finally:
        yard.slurm.call("scontrol", "update", f"nodename={failed}", "state=resume")


def test_a_run_never_notices_that_the_controller_is_started_again(yard: SlurmYard) -> None:
    run = yard.submit(long_run("hpc"))
    step = yard.wait_for_step(run, 5)["step"]
    yard.slurm.stop_program("slurmctld", kill=True)
    later = yard.wait_for_step(run, step + 100)
    assert later["status"] == "RUNNING"
    yard.slurm.start_controller()
    assert yard.wait_for_step(run, later["step"] + 20)["status"] == "RUNNING"
    assert len(yard.attempts(run)) == 1
    yard.end(run)


def test_a_run_waits_in_words_and_stopping_it_empties_the_queue(yard: SlurmYard) -> None:
    other = yard.take_all_machines(600)
    try:
        run = yard.submit(small("hpc"))
        yard.wait_for_words(run, "(Resources)")
        assert yard.sentence(run).startswith("Waiting for Slurm on cluster hpc, job ")
        yard.slurm.stop_program("slurmctld")
        yard.wait_for_words(run, "asked again")
        yard.slurm.start_controller()
        yard.wait_for_words(run, "(Resources)")
        yard.post(f"/runs/{run}/stop")
        assert yard.wait_for_end(run)["status"] == "CANCELLED"
        yard.wait_for(lambda: yard.slurm.queue() == [other], "its job is left")
    finally:
        yard.slurm.call("scancel", other)
    yard.wait_until_nothing_is_left()


def test_a_controller_that_hangs_is_a_sentence_and_disturbs_no_run(yard: SlurmYard) -> None:
    run = yard.submit(long_run("hpc"))
    yard.wait_for_step(run, 5)
    controller = yard.slurm.programs["slurmctld"]
    controller.send_signal(signal.SIGSTOP)
    try:
        waiting = yard.submit(small("hpc"))
        yard.wait_for_words(waiting, "did not answer")
        step = yard.wait_for_step(run, 5)["step"]
        assert yard.wait_for_step(run, step + 20)["status"] == "RUNNING"
    finally:
        controller.send_signal(signal.SIGCONT)
    assert yard.wait_for_end(waiting)["status"] == "SUCCEEDED", yard.sentence(waiting)
    assert len(yard.attempts(run)) == 1
    yard.end(run)


def test_a_partition_that_is_gone_fails_the_run_with_what_to_do(yard: SlurmYard) -> None:
    run = yard.submit(small("nowhere"))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "FAILED"
    assert "Invalid partition name" in ended["reason"]["sentence"], ended["reason"]
    assert "Its partition is 'gone': change that where cluster nowhere is edited." in ended["reason"]["sentence"]
    assert not yard.slurm.queue()


def test_a_job_that_ends_before_its_nodes_join_fails_with_what_to_do(yard: SlurmYard) -> None:
    run = yard.submit(small("broken"))
    ended = yard.wait_for_end(run)
    assert ended["status"] == "FAILED"
    assert "before its nodes had joined. `trainyard doctor --cluster broken`" in ended["reason"]["sentence"]
    yard.wait_for(lambda: not yard.slurm.queue(), "a job is left")


def test_control_killed_again_and_again_submits_one_job(yard: SlurmYard) -> None:
    run = yard.submit(small("hpc", steps=400))
    for _ in range(3):
        time.sleep(0.7)
        yard.kill_control()
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.run(run)["reason"]
    yard.wait_until_nothing_is_left()
    names = yard.slurm.call("squeue", "--states=all", "-h", "-o", "%j").split()
    assert sum(name.endswith(yard.attempts(run)[0]["id"]) for name in names) == 1


def test_the_doctor_finds_a_cluster_ready_and_says_what_to_mend(yard: SlurmYard) -> None:
    well = doctor(yard.up, "hpc")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert "A short job ran on 2 of 2 machines" in well.stdout
    for name, step, words in (
        ("nowhere", "partition", "where the cluster is edited"),
        ("broken", "job", "did not run"),
    ):
        ill = doctor(yard.up, name)
        assert ill.returncode == 1
        assert f"FAILED  {step}" in ill.stdout and words in ill.stdout, ill.stdout
    assert "there are: " in doctor(yard.up, "unknown").stderr

from __future__ import annotations

import shlex

from runs.engines.machine_system import MachineRequest
from runs.engines.slurm.script import attempt_in, comment_of, script_of, submission
from runs.engines.slurm.settings import SlurmSettings

REQUEST = MachineRequest("abc123", "hello", 2, 3, ["join_one", "join_two"])


def test_a_submission_asks_for_machines_and_cores() -> None:
    words = submission(SlurmSettings(folder="/shared"), REQUEST, "mark", "hpc")
    assert {"--nodes=2", "--ntasks=2", "--cpus-per-task=3", "--no-requeue"} <= set(words)


def test_settings_become_words() -> None:
    settings = SlurmSettings(
        folder="/shared", partition="main", account="lab", qos="high", gres="gpu:a100", memory="16G", time_limit="90m",
        notice="2m", cpus_per_slot=4, options=["exclude=c7", "exclusive"],
    )  # fmt: skip
    words = set(submission(settings, REQUEST, "mark", "hpc"))
    assert {"--partition=main", "--account=lab", "--qos=high", "--gres=gpu:a100:3", "--mem=16G", "--time=90"} <= words
    assert {"--signal=URG@120", "--cpus-per-task=12", "--exclude=c7", "--exclusive"} <= words


def test_values_are_quoted_in_the_script() -> None:
    settings = SlurmSettings(folder="/shared/with space; rm -rf x", python="/opt/py $(id)/python")
    lines = script_of(settings, REQUEST, "http://host:8000").splitlines()
    assert lines[0] == "#!/bin/sh"
    words = shlex.split(lines[-1])
    assert words[0] == "exec" and "/opt/py $(id)/python" in words and f"{settings.folder}/machines" in words
    assert "export TRAINYARD_JOIN='join_one join_two'" in lines


def test_a_comment_names_the_attempt_of_its_own_server_alone() -> None:
    comment = comment_of("mark", "abc123")
    assert attempt_in(comment, "mark") == "abc123"
    assert attempt_in(comment, "other") == attempt_in("somebody's", "mark") == attempt_in("", "mark") == ""

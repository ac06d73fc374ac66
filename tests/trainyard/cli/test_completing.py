"""Completion as real shells ask for it, from the script that `trainyard completion` prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import Group

from runs.actions import create_report
from runs.models import Run
from tests.cast import Cast, make_node
from tests.trainyard.command import Trainyard
from tests.up_process import OURS

pytestmark = pytest.mark.usefixtures("valkey")
BASH = """
eval "$(trainyard completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDS=($1) COMP_CWORD=1
_python_argcomplete trainyard
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "trainyard completion fish | source; complete -C $argv[1]"
ZSH = 'autoload -U compinit; compinit -u; eval "$(trainyard completion zsh)"; echo "is"ready\n'
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "trainyard"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainyard "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


def bash(line: str) -> list[str]:
    return [one.strip() for one in ended(["bash", "-c", BASH, "bash", line]).splitlines() if one.strip()]


def fish(line: str) -> list[str]:
    return [one.partition("\t")[0] for one in ended(["fish", "--no-config", "-c", FISH, line]).splitlines()]


def ended(words: list[str]) -> str:
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


@pytest.mark.parametrize("complete", [bash, fish])
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("trainyard ru", ["runs"]),
        ("trainyard give", ["give-up"]),
        ("trainyard cluster create --inter", ["--interactive"]),
        ("trainyard completion z", ["zsh"]),
        ("trainyard logs x --level w", ["warning"]),
    ],
)
def test_commands_options_and_choices(complete: Callable[[str], list[str]], line: str, wanted: list[str]) -> None:
    assert complete(line) == wanted


@pytest.mark.parametrize("complete", [bash, fish])
def test_ids_and_names_come_from_the_server(
    complete: Callable[[str], list[str]], trainyard: Trainyard, make_run: Callable[..., Run], cast: Cast
) -> None:
    run = make_run()
    make_node(cast.cluster, "node-a")
    Group.objects.create(name="research").user_set.add(cast.mate)
    report = create_report(actor=cast.mate, project=cast.project, title="Warm-up", body="")
    for line, wanted in (
        (f"trainyard stop {run.pk[:3]}", run.pk),
        ("trainyard nodes --cluster loc", "local"),
        ("trainyard move x def", "default"),
        ("trainyard drain no", "node-a"),
        ("trainyard group members res", "research"),
        (f"trainyard report show {report.pk[:3]}", report.pk),
    ):
        found: list[str] = []
        for _ in range(5):  # where the machine has much to do the server may answer too late for a shell
            found = found or complete(line)
        assert found == [wanted], line


@pytest.mark.parametrize("environment", [{}, {"TRAINYARD_URL": "http://127.0.0.1:9", "TRAINYARD_TOKEN": "x"}])
def test_without_a_server_nothing_is_offered_and_nothing_is_said(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert bash("trainyard stop a") == []


def test_files_are_offered_where_one_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").touch()
    assert bash("trainyard submit sp") == ["spec.yaml"]


def test_zsh_completes_what_is_typed() -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here")
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb"})
    try:
        os.write(terminal, ZSH.encode())
        read_until(terminal, "isready")
        os.write(terminal, b"trainyard cluster create --inter\t")
        read_until(terminal, "--interactive")
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def read_until(terminal: int, text: str) -> None:
    found, deadline = "", time.monotonic() + PATIENCE_S
    while text not in found:
        assert time.monotonic() < deadline, found
        if select.select([terminal], [], [], 0.2)[0]:
            found += os.read(terminal, 4096).decode(errors="replace")


def test_a_shell_that_is_not_known_is_exit_code_2() -> None:
    words = [sys.executable, "-m", "trainyard", "completion", "tcsh"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "tcsh" in done.stderr


def test_no_other_command_waits_for_the_library() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "trainyard", "--version"]
    assert "argcomplete" not in subprocess.run(words, capture_output=True, text=True, check=True).stderr

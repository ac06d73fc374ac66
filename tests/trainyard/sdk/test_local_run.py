"""Which processes are one local run: real processes, real forks, real launchers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.up_process import ROOT
from trainyard.sdk import local_run as local

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(local.VARIABLE, raising=False)
    monkeypatch.setattr(local, "_own", (0, ""))
    monkeypatch.setattr(local, "_num_begun", 0)


def run_script(tmp_path: Path, text: str, **variables: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(text)
    inherited = {name: value for name, value in os.environ.items() if name != local.VARIABLE}
    environment = {**inherited, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def error_file(agent: str, rank: int, attempt: int = 0) -> str:
    return f"/tmp/torchelastic_{agent}/none_{agent}/attempt_{attempt}/{rank}/error.json"


def as_rank(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], num_before: int = 0) -> str:
    """What a fresh process with that environment would find."""
    monkeypatch.setattr(local, "_own", (0, ""))
    monkeypatch.setattr(local, "_num_begun", num_before)
    monkeypatch.delenv(local.VARIABLE, raising=False)
    return local.begin(None, environ)


def test_ranks_of_one_launcher_are_one_run_and_those_of_the_next_are_another(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [as_rank(monkeypatch, {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": error_file("a", rank)}) for rank in (0, 1)]
    assert ranks[0] == ranks[1]
    restarted = {**TORCHRUN, "MASTER_PORT": "2", "TORCHELASTIC_ERROR_FILE": error_file("a", 0, attempt=1)}
    assert as_rank(monkeypatch, restarted) == ranks[0], "what torchrun restarts goes on with its run"
    assert as_rank(monkeypatch, {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": error_file("b", 0)}) != ranks[0]


def test_ranks_on_several_machines_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {**TORCHRUN, "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "gpu-1"}
    first = as_rank(monkeypatch, {**environ, "TORCHELASTIC_ERROR_FILE": error_file("a", 0)})
    assert as_rank(monkeypatch, {**environ, "TORCHELASTIC_ERROR_FILE": error_file("b", 1)}) == first
    assert as_rank(monkeypatch, {**environ, "MASTER_PORT": "2"}) != first


def test_each_run_of_a_process_is_another_one_and_torchruns_ranks_agree_on_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = local.begin(None)
    local.leave()
    assert local.begin(None) != first
    environ = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": error_file("a", 0)}
    assert as_rank(monkeypatch, environ, num_before=1) == as_rank(monkeypatch, environ, num_before=1)
    assert as_rank(monkeypatch, environ, num_before=1) != as_rank(monkeypatch, environ, num_before=0)


def test_a_name_that_was_given_from_outside_is_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    given = local.begin(None, {local.VARIABLE: "job 7"})
    assert len(given) == 32 and local.begin("x", {local.VARIABLE: "job 7"}) == given
    assert local.begin(None, {local.VARIABLE: "0" * 32}) == "0" * 32
    assert local.begin(None, {local.VARIABLE: "job 8"}) != given


def test_what_a_finished_run_started_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = local.begin(None)
    assert os.environ[local.VARIABLE] == begun
    local.leave()
    assert local.VARIABLE not in os.environ


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_are_in_their_parents_run_even_when_it_logs_nothing(
    tmp_path: Path, method: str
) -> None:
    text = f"""
import os
import multiprocessing as mp
from trainyard.sdk import local_run as local
def child():
    os.write(1, (local.begin(None) + "\\n").encode())
if __name__ == "__main__":
    children = [mp.get_context("{method}").Process(target=child) for _ in range(2)]
    [one.start() for one in children]; [one.join() for one in children]
    print(local.begin(None), flush=True)
"""
    assert len(set(run_script(tmp_path, text).split())) == 1
    assert set(run_script(tmp_path, text).split()).isdisjoint(run_script(tmp_path, text).split())


def test_forked_children_and_programs_that_a_run_starts_belong_to_it(tmp_path: Path) -> None:
    text = """
import os, subprocess, sys
from trainyard.sdk import local_run as local
mine = local.begin("x")
print(mine, flush=True)
if os.fork() == 0:
    print(local.begin(None), flush=True)
    os._exit(0)
os.wait()
code = "from trainyard.sdk import local_run as local; print(local.begin('y'))"
subprocess.run([sys.executable, "-c", code], check=True)
"""
    found = run_script(tmp_path, text).split()
    assert len(found) == 3 and len(set(found)) == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pass", "exit"),
        ("raise ValueError('no more coal\\nat all')", "error: ValueError: no more coal"),
        ("raise KeyboardInterrupt", "interrupt"),
        ("sys.exit(3)", "error: exit code 3"),
        ("sys.exit('no coal')", "error: exit code 1: no coal"),
        ("sys.exit(type('Odd', (), {'__str__': lambda self: 1 / 0})())", "error: exit code 1"),
        ("sys.exit(0)", "exit"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", "exit"),
        ("import sys; sys.ps1 = '> '; raise ValueError('at a prompt')", "exit"),
    ],
)
def test_an_exit_says_why_as_far_as_python_knows(tmp_path: Path, code: str, reason: str) -> None:
    text = f"""
import atexit, sys
from trainyard.sdk import local_run as local
local.watch_exit()
atexit.register(lambda: print(local.reason_of_exit(), flush=True))
{code}
"""
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == reason


def test_a_begin_record_says_where_it_came_from() -> None:
    begin = local.begin_record(None, "0" * 32, environ={"TORCHELASTIC_RESTART_COUNT": "2"})
    assert begin.local == "0" * 32 and begin.restart == 2 and begin.host
    assert Path(begin.script).is_absolute()


def test_a_folder_that_was_deleted_under_the_script_costs_points_and_no_training(tmp_path: Path) -> None:
    text = """
import os, tempfile, trainyard
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
run = trainyard.init()
run.log({"loss": 1.0})
run.finish()
print(run.num_lost_points)
"""
    assert run_script(tmp_path, text).strip() == "1"


def test_another_name_ends_the_first_run_and_begins_a_second(tmp_path: Path) -> None:
    """As in a notebook, where one process makes one training after the other."""
    said = run_script(
        tmp_path,
        "import trainyard\n"
        f"first = trainyard.init('first', folder={str(tmp_path)!r})\n"
        "first.log({'loss': 1.0}, step=0)\n"
        "assert trainyard.init('first') is first and trainyard.init() is first\n"
        "second = trainyard.init('second', folder=first.folder.parent)\n"
        "second.log({'loss': 2.0}, step=0)\n"
        "assert second is not first and first.is_finished and not second.is_finished\n"
        "assert second.local_id != first.local_id and trainyard.init('second') is second\n"
        "second.finish()\n"
        "print(first.folder.name, second.folder.name, first.num_lost_points)\n",
    )
    first, second, lost = said.split()
    assert first != second and lost == "0"


def test_a_rank_and_an_inherited_run_stay_one_run(tmp_path: Path) -> None:
    script = (
        "import trainyard\n"
        f"first = trainyard.init('first', folder={str(tmp_path)!r})\n"
        "assert trainyard.init('second') is first and not first.is_finished\n"
        "print('one')\n"
    )
    assert run_script(tmp_path, script, TRAINYARD_SPOOL=str(tmp_path / "spool")) == "one\n"
    assert run_script(tmp_path, script, **{local.VARIABLE: "0" * 32}) == "one\n"


# The same id is the same run.

TWICE = """
import sys, trainyard
run = trainyard.init(**eval(sys.argv[1]))
run.log({"x": 1})
print(run.local_id)
if "dies" in sys.argv:
    import os, signal
    run.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_twice(tmp_path: Path, arguments: str, *more: str) -> tuple[int, str]:
    script = tmp_path / "script.py"
    script.write_text(TWICE)
    environment = {name: value for name, value in os.environ.items() if name != local.VARIABLE}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(script), arguments, *more]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, (done.stdout or done.stderr).strip().splitlines()[-1] if done.stdout or done.stderr else ""


def test_a_process_with_the_same_id_goes_on_with_the_run(tmp_path: Path) -> None:
    first = run_twice(tmp_path, "{'id': 'exp-7'}")
    assert first == run_twice(tmp_path, "{'id': 'exp-7', 'resume': 'must'}") and first[0] == 0
    assert run_twice(tmp_path, "{'id': 'exp-7', 'project': 'vision'}")[1] != first[1], "an id is one of a project"


def test_resume_refuses_what_it_was_told_to_refuse(tmp_path: Path) -> None:
    assert "resume='must' forbids to begin it" in run_twice(tmp_path, "{'id': 'exp-7', 'resume': 'must'}")[1]
    assert "resume='must' needs an id" in run_twice(tmp_path, "{'resume': 'must'}")[1]
    assert "resume='later' is none of allow, must, never, auto" in run_twice(tmp_path, "{'resume': 'later'}")[1]
    run_twice(tmp_path, "{'id': 'exp-7', 'resume': 'never'}")
    assert "resume='never' forbids to go on with it" in run_twice(tmp_path, "{'id': 'exp-7', 'resume': 'never'}")[1]


def test_auto_goes_on_with_what_was_killed_and_begins_anew_after_the_end(tmp_path: Path) -> None:
    script = "{'name': 'a', 'resume': 'auto'}"
    code, killed = run_twice(tmp_path, script, "dies")
    assert code == -9
    assert run_twice(tmp_path, "{'name': 'b', 'resume': 'auto'}")[1] != killed, "another name is another run"
    assert run_twice(tmp_path, script) == (0, killed)
    assert run_twice(tmp_path, script)[1] != killed


def test_another_id_in_one_process_ends_the_run_before(tmp_path: Path) -> None:
    text = """
import trainyard
one = trainyard.init(id="one"); two = trainyard.init(id="two")
print(one.is_finished, two.is_finished, one.local_id == two.local_id, trainyard.init(id="two") is two)
"""
    assert run_script(tmp_path, text) == "True False False True\n"

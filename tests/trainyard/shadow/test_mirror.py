"""``trainyard shadow`` and the hook: a program runs as it would without them, whatever happens."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.trainyard.command import Trainyard
from tests.trainyard.shadow.shadowed import shadowed
from trainyard.shadow import HOOK, variables

WRITER = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter('runs/a')\n"
FAKE = "wandb.py"


@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [("import sys; sys.exit(3)", 3, "error: exit code 3"), ("raise KeyError('loss')", 1, "error: KeyError: 'loss'")],
)
def test_a_script_ends_as_it_would(tmp_path: Path, ending: str, code: int, reason: str) -> None:
    done = shadowed(tmp_path, f"{WRITER}writer.add_scalar('loss', 0.5, 1)\nwriter.flush()\n{ending}\n")
    assert (done.code, done.reason) == (code, reason)
    assert done.points()["loss", ()] == [(1, 0.5)]


def test_a_writer_that_is_left_open_and_nans_and_steps_that_go_back_come_whole(tmp_path: Path) -> None:
    done = shadowed(tmp_path, WRITER + """
for step in (5, 3, 3, -1):
    writer.add_scalar("loss", float("nan"), step)
""")  # fmt: skip
    assert done.code == 0, done.err
    assert sorted(step for step, _ in done.points()["loss", ()]) == [-1, 3, 3, 5]


def test_forks_children_and_threads_are_one_run_and_no_point_comes_twice(tmp_path: Path) -> None:
    done = shadowed(tmp_path, WRITER + """
import os, subprocess, sys, threading
writer.add_scalar("loss", 0.5, 1)
if os.fork() == 0:
    child = SummaryWriter("runs/a/forked")
    child.add_scalar("loss", 1.5, 1)
    child.close()
    os._exit(0)
os.wait()
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "train.py", "again"], check=True)
threads = [threading.Thread(target=lambda: [writer.add_scalar("t", 1.0, n) for n in range(200)]) for _ in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
writer.close()
""")  # fmt: skip
    assert done.code == 0, done.err
    found = done.points()
    assert found["loss", ()] == [(1, 0.5)] * 2 and len(found["t", ()]) == 2 * 800
    assert found["loss", (("folder", "forked"),)] == [(1, 1.5)] * 2


def test_a_sitecustomize_of_the_users_own_runs_and_the_path_is_as_before(tmp_path: Path) -> None:
    (own := tmp_path / "own").mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 1\n")
    script = "import sys, os\nprint(mine, sys.path[:2])\nimport sitecustomize; print(sitecustomize.__file__)\n"
    (tmp_path / "train.py").write_text(script)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env={"PYTHONPATH": str(own)}, text=True,
                           capture_output=True, check=True)  # fmt: skip
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=variables(str(own)), text=True,
                          capture_output=True, check=True)  # fmt: skip
    assert done.stdout == plain.stdout and not done.stderr


def test_a_python_without_us_and_a_library_of_another_kind_cost_one_line(tmp_path: Path) -> None:
    (tmp_path / FAKE).write_text("def log(values):\n    print(values)\n")
    script = "import importlib.util\nimportlib.util.find_spec('wandb')\nimport wandb\nwandb.log({'a': 1})\n"
    done = shadowed(tmp_path, script)
    assert (done.code, done.out) == (0, "{'a': 1}\n") and done.err.count("wandb is not mirrored") == 1, done.err
    venv.create(tmp_path / "bare", symlinks=True)
    bare = subprocess.run([tmp_path / "bare/bin/python", "train.py"], cwd=tmp_path, env=variables(None), text=True,
                          capture_output=True)  # fmt: skip
    assert (bare.returncode, bare.stdout) == (0, "{'a': 1}\n")
    assert bare.stderr == (
        "trainyard shadow: wandb is not mirrored: this Python has no trainyard: install its wheel there\n"
    )


def test_what_two_libraries_log_under_one_name_comes_once(tmp_path: Path) -> None:
    done = shadowed(tmp_path, WRITER + """
import trainyard, wandb
wandb.init()
for step in range(20):
    wandb.log({"loss": step})
    trainyard.log({"own": step}, step)
    wandb.log({"own": -1}, step=step)
for step in range(20):
    writer.add_scalar("loss", step, step)
writer.close()
wandb.finish()
""")  # fmt: skip
    assert done.code == 0, done.err
    found = done.points()
    assert len(found["loss", ()]) == 20 and [value for _, value in found["own", ()]] == list(range(20))
    assert done.err.count("'loss' comes from W&B") == 1 and done.reason == "finish"


@pytest.mark.usefixtures("valkey")
def test_without_a_server_sync_sends_it_later(tmp_path: Path, trainyard: Trainyard) -> None:
    done = shadowed(tmp_path, f"{WRITER}writer.add_scalar('loss', 0.5, 1)\nwriter.close()\n")
    assert done.code == 0, done.err
    sent = trainyard("sync", str(tmp_path / "trainyard-spool"), "--json")
    assert sent.code == 0 and '"status": "SUCCEEDED"' in sent.out, sent.err


def test_a_command_that_is_missing_is_named(trainyard: Trainyard) -> None:
    assert trainyard("shadow").code == 2
    assert trainyard("shadow", "--", "no-such-program").code == 127
    assert (HOOK / "sitecustomize.py").is_file()

"""The hook of cold ranks: what a script sees is what it would see without, and its stacks are to be had."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.progress import marker
from workers.rank_process.cold_rank import HOOK, VARIABLE, leading_to_hook, marks_in
from workers.rank_process.run import STACK_SIGNAL
from workers.supervisor.hangs.watch import described

LOOKS = """
import json, os, sys
real = sys.modules.get("sitecustomize")
print(json.dumps({
    "PYTHONPATH": os.environ.get("PYTHONPATH"), "path": sys.path[1:], "environment": sorted(os.environ),
    "sitecustomize": real and real.__file__, "word": getattr(real, "word", None), "open": os.listdir("/proc/self/fd"),
    "ours": [name for name in sys.modules if "trainyard" in name],
}))
"""
# As torch has it, without torch: the module whose import is waited for, and one collective that is waited in.
TORCH = {
    "torch/__init__.py": "",
    "torch/_C/__init__.py": "from . import _distributed_c10d",
    "torch/_C/_distributed_c10d.py": """
import json
def _dump_fr_trace_json(*_):
    one = {"retired": False, "state": "started", "record_id": 1, "process_group": ["0", ""],
           "profiling_name": "gloo:all_reduce", "is_p2p": False, "collective_seq_id": 7,
           "time_created_ns": 1}
    return json.dumps({"entries": [one]})
""",
    "torch/distributed/__init__.py": "from .distributed_c10d import *",
    "torch/distributed/distributed_c10d.py": """
class Group:
    def _get_sequence_number_for_group(self):
        return 7
class _world:
    pg_names, pg_group_ranks = {}, {}
def init_process_group(backend):
    "Form a group."
    group = Group()
    _world.pg_names[group] = "0"
    _world.pg_group_ranks[group] = {0: 0, 1: 1}
""",
}
WAITS = """
import sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
print(dist.init_process_group.__name__, dist.init_process_group.__doc__, len(sys.meta_path), flush=True)
def wait():
    time.sleep(60)
wait()
"""


def environment(**changes: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **changes}


def looked(folder: Path, **variables: str) -> dict[str, object]:
    (folder / "look.py").write_text(LOOKS)
    done = subprocess.run(
        [sys.executable, "look.py"],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("own", [None, "", "libraries", f"libraries{os.pathsep}more"])
def test_path_and_environment_are_what_they_are_without_it(own: str | None, tmp_path: Path) -> None:
    for name in ("libraries", "more"):
        (tmp_path / name).mkdir()
    (tmp_path / "libraries" / "sitecustomize.py").write_text("word = 'mine'")
    before = {} if own is None else {"PYTHONPATH": own}
    plan = json.dumps({"pid": 0, "signal": 0})
    assert looked(tmp_path, **leading_to_hook(own), **{VARIABLE: plan}) == looked(tmp_path, **before)


@pytest.mark.parametrize("plan", ["", "{", "[]", '{"pid": "x"}'])
def test_a_broken_plan_does_the_script_no_harm(plan: str, tmp_path: Path) -> None:
    assert looked(tmp_path, PYTHONPATH=str(HOOK), **{VARIABLE: plan}) == looked(tmp_path)


def test_a_rank_writes_its_stacks_and_copies_its_collectives(tmp_path: Path) -> None:
    for name, text in {**TORCH, "train.py": WAITS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    marks = tmp_path / "marks"
    marks.write_bytes(bytes(marker.SIZE))
    starts = (  # a plan names the process, which a shell becomes
        f'export {VARIABLE}="{{\\"pid\\": $$, \\"signal\\": {int(STACK_SIGNAL)}, \\"marks\\": \\"{marks}\\", '
        f'\\"code\\": \\"{tmp_path}\\", \\"progress\\": \\"{Path(marker.__file__).parent}\\"}}"; '
        f"exec {sys.executable} -u train.py"
    )
    with subprocess.Popen(
        ["sh", "-c", starts], cwd=tmp_path, env=environment(PYTHONPATH=str(HOOK)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as rank:  # fmt: skip
        assert rank.stdout is not None and rank.stderr is not None
        bare = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.meta_path))"], capture_output=True)
        assert rank.stdout.readline() == f"init_process_group Form a group. {int(bare.stdout)}\n"
        while not marks_in(marks).text:
            assert rank.poll() is None
            time.sleep(0.1)
        os.kill(rank.pid, STACK_SIGNAL)
        stack = [rank.stderr.readline() for _ in range(5)]
        os.kill(rank.pid, signal.SIGKILL)
    description = described(marks_in(marks).text)
    assert marks_in(marks).entered == 7 and description.entered == {"0": 7}
    assert description.collective is not None
    assert (description.collective.operation, description.collective.ranks) == ("all_reduce", [0, 1])
    assert description.line == "train.py line 7"
    assert any('train.py", line 7 in wait' in line for line in stack), stack


# As mpi4py has it, over a library that sees as many ranks as SIZE says.
MPI = """
import atexit, os
class World:
    def Get_size(self):
        return int(os.environ["SIZE"])
COMM_WORLD = World()
def Is_initialized():
    return "SIZE" in os.environ
def Get_library_version():
    return "Open MPI v5.0.11, package: Open MPI\\nmore\\0"
atexit.register(print, "at exit", flush=True)
"""
RAISES = """
import threading, time
from mpi4py import MPI
threading.Thread(target=time.sleep, args=(60,)).start()  # as a library that waits for the others when Python ends
raise ValueError("no such layer")
"""


def run_with_mpi(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"mpi4py/__init__.py": "", "mpi4py/MPI.py": MPI, "train.py": RAISES}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    hooked = environment(PYTHONPATH=str(HOOK), **{VARIABLE: json.dumps({"pid": 0, "signal": 0})}, **variables)
    command = [sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=hooked, capture_output=True, text=True, timeout=30, check=False)


def test_an_error_in_a_rank_of_mpi_ends_it_at_once(tmp_path: Path) -> None:
    done = run_with_mpi(tmp_path, PMI_SIZE="2", SIZE="2")
    assert (done.returncode, done.stdout) == (1, "at exit\n")
    assert done.stderr.endswith("ValueError: no such layer\n")


def test_a_library_of_mpi_that_sees_one_rank_of_several_is_refused(tmp_path: Path) -> None:
    done = run_with_mpi(tmp_path, PMI_SIZE="2", SIZE="1")
    assert done.returncode == 1
    assert "Error: mpi4py runs on Open MPI v5.0.11, package: Open MPI, which sees 1 rank of 2 here: " in done.stderr


def test_what_a_script_writes_in_place_of_marks_is_nothing(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    assert marks_in(marks).text == b""
    marks.write_bytes(b"\xff" * 100)
    assert marks_in(marks).text == b""
    marks.unlink()
    marks.symlink_to("/etc/passwd")
    assert marks_in(marks).entered == 0


@pytest.mark.parametrize(
    "name", ["progress/sampler.py", "progress/marker.py", "rank_process/cold_hook/sitecustomize.py"]
)
def test_what_a_cold_rank_loads_imports_pythons_own_library_alone(name: str) -> None:
    tree = ast.parse((HOOK.parents[1] / name).read_text())
    typed = [one for node in ast.walk(tree) if isinstance(node, ast.If) for one in ast.walk(node)]
    imports = [one for one in ast.walk(tree) if isinstance(one, ast.Import | ast.ImportFrom) and one not in typed]
    names = {one.module if isinstance(one, ast.ImportFrom) else one.names[0].name for one in imports}
    others = {str(one).split(".")[0] for one in names} - sys.stdlib_module_names
    assert others <= {"torch"}

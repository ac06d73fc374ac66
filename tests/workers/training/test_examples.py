from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest
import yaml

from tests.frames import frames
from tests.workers.training.ranks import free_port
from trainyard.spec import RecipeSpec, ScriptSpec, load_spec_file, parse_spec
from trainyard.spec.models import CommunicationSpec
from trainyard.spec.sweeps import parse_sweep
from workers.supervisor.ranks.launch import RankPlace, contract_variables

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


SWEEPS = sorted(path.stem for path in EXAMPLES.glob("sweep-*.yaml"))
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.yaml")} - set(SWEEPS))
MESHES = {
    "breast-cancer": {"data": 2},
    "compressed": {"data": 2},
    "digits": {"data": 2},
    "digits-vit": {"data": 2},
    "context": {"context": 2},
    "diloco": {"data": 2},
    "grouped-queries": {"data": 2},
    "hello-gpt": {"data": 2},
    "hybrid": {"pipeline": 2, "data": 2, "tensor": 2},
    "parameter-server": {"data": 2},
    "pipeline": {"pipeline": 2},
    "sharded": {"shard": 2},
    "stdlib": {"data": 2},
    "stdlib-bpe": {"data": 2},
    "tensor": {"tensor": 2},
    "tiny-steps": {"data": 2},
}
RANKS = {  # of those that train no recipe
    "accelerate": 2,
    "accelerate-deepspeed": 2,
    "accelerate-fsdp": 2,
    "ddp": 2,
    "deepspeed": 2,
    "fsdp2": 2,
    "horovod": 2,
    "jax": 2,
    "lightning": 2,
    "media": 1,
    "mpi": 2,
    "mpi4py": 2,
    "network": 2,
    "own-venv": 2,
    "ray-train": 1,
    "script": 2,
    "spark": 2,
    "tensorflow": 2,
}


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_a_spec_that_says_what_it_shows(name: str) -> None:
    spec = parse_spec(load_spec_file(EXAMPLES / f"{name}.yaml"))
    if isinstance(spec, RecipeSpec):
        assert spec.mesh().used == MESHES[name]
    else:
        assert isinstance(spec, ScriptSpec | CommunicationSpec) and spec.world_size() == RANKS[name]


@pytest.mark.parametrize("name", SWEEPS)
def test_each_example_of_a_sweep_searches_over_a_spec_that_runs(name: str) -> None:
    sweep = parse_sweep(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["sweep"])
    assert isinstance(sweep.base, dict) and isinstance(parse_spec(sweep.base), RecipeSpec)
    assert len(sweep.space) > 1


def test_no_two_examples_have_one_name() -> None:
    names = [parse_spec(load_spec_file(EXAMPLES / f"{name}.yaml")).name for name in NAMES]
    assert len(set(names)) == len(names)


def test_the_example_script_runs_as_torchrun_would_start_it(tmp_path: Path) -> None:
    environment = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment |= {"MASTER_PORT": str(free_port()), "TRAINYARD_OUTPUT": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(EXAMPLES / "script" / "train.py"), "--steps", "50"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "step 50/50  loss 0." in done.stdout
    assert (tmp_path / "model.pt").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_the_example_of_tensorflow_finds_its_place_and_names_what_is_missing(rank: int, tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError")  # too large for this environment
    workers = ["10.0.0.1:4000", "10.0.0.2:4001"]
    variables = contract_variables(["tensorflow"], RankPlace(rank, 2, 0, 1, master="10.0.0.1:29500", workers=workers))
    environment = {**os.environ, **variables, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(EXAMPLES / "tensorflow" / "train.py")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"worker {rank} of 2 at {workers[rank]}, chief at 10.0.0.1:4000\n"
    assert done.returncode == 1 and "name it in environment.requirements" in done.stderr


@pytest.mark.extended
def test_the_example_of_media_logs_each_kind_and_its_pictures_come_closer(tmp_path: Path) -> None:
    environment = {**os.environ, "TRAINYARD_SPOOL": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(EXAMPLES / "media" / "train.py"), "--steps", "60", "--show-every", "20"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    [spool] = tmp_path.glob("*.spool")
    logged = [frame.payload for frame in frames(spool.read_bytes()) if frame.kind == "media"]
    assert {(item["kind"], item["step"]) for item in logged} == {
        (kind, step) for kind in ("image", "audio", "histogram", "table", "text") for step in (1, 20, 40, 60)
    }
    tables = [msgpack.unpackb(item["data"]) for item in logged if item["kind"] == "table"]
    errors = [sum(value for _, *values in rows for value in values) for rows in tables]
    assert errors[-1] < errors[0] / 2

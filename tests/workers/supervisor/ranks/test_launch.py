from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainyard.contract.base import SpecDocument
from trainyard.contract.orders import Go, Order
from trainyard.spec import SpecError, parse_spec
from workers.attempt.folder import AttemptFolder
from workers.rank_process.spark import SparkCluster
from workers.sandbox.node import NO_ISOLATION
from workers.supervisor.ranks.environment import Launch
from workers.supervisor.ranks.launch import RankPlace, RankStart, contract_variables, plan_rank

PLACE = RankPlace(3, 4, 1, 2, master="10.0.0.1:29500", workers=["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "10.0.0.2:2"])


def test_tensorflow_gets_all_workers_and_its_own_place() -> None:
    found = json.loads(contract_variables(["tensorflow"], PLACE)["TF_CONFIG"])
    assert found == {"cluster": {"worker": PLACE.workers}, "task": {"type": "worker", "index": 3}}


def test_mpi_gets_the_names_of_its_launchers() -> None:
    found = contract_variables(["mpi"], PLACE)
    assert {name: found[name] for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE")} == {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_SIZE": "4",
        "PMI_RANK": "3",
        "PMI_SIZE": "4",
    }
    assert (found["OMPI_COMM_WORLD_LOCAL_RANK"], found["MPI_LOCALNRANKS"]) == ("1", "2")


def test_jax_gets_the_coordinator_and_its_number() -> None:
    assert contract_variables(["jax"], PLACE) == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:29500",
        "JAX_NUM_PROCESSES": "4",
        "JAX_PROCESS_ID": "3",
    }


def test_horovod_gets_the_names_of_its_launcher() -> None:
    assert contract_variables(["horovod"], PLACE) == {
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
    }


def test_several_add_up_and_torchruns_are_elsewhere() -> None:
    both = contract_variables(["torchrun", "jax", "mpi"], PLACE)
    assert both == contract_variables(["jax"], PLACE) | contract_variables(["mpi"], PLACE)
    assert contract_variables([], PLACE) == {}


@pytest.mark.parametrize(
    ("given", "launch"), [("none", []), ("mpi", ["mpi"]), (["torchrun", "jax"], ["torchrun", "jax"]), (None, [])]
)
def test_a_word_is_a_list_of_one(given: object, launch: list[str]) -> None:
    spec = parse_spec({"name": "x", "task": {"script": "t.py", "launch": given}}).resolved()
    assert spec["task"]["launch"] == launch


def test_torchrun_for_one_process_and_no_torchrun_contradict_each_other() -> None:
    with pytest.raises(SpecError, match="gives none"):
        parse_spec({"name": "x", "task": {"script": "t.py", "launch": "none", "distributed": True}})


@pytest.mark.parametrize(("changes", "nodes"), [({"launch": "tensorflow"}, 1), ({}, 2)])
def test_one_place_for_all_workers_of_tensorflow_is_refused(changes: dict[str, str], nodes: int) -> None:
    config = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
    task = {"script": "t.py", "environment": {"TF_CONFIG": config}, **changes}
    with pytest.raises(
        SpecError, match=r"task\.environment.*TF_CONFIG .*one place among the workers.*launch tensorflow gives"
    ):
        parse_spec({"name": "x", "resources": {"nodes": nodes}, "task": task})


@pytest.mark.parametrize(
    ("task", "changes", "words"),
    [
        ({"launch": ["spark", "mpi"]}, {}, r"task\.launch.* has more than spark"),
        ({}, {"environment": {"container": {"image": "docker.io/library/python:3.12"}}}, "a container are no Spark's"),
    ],
)
def test_spark_has_no_launcher_beside_it_and_no_container(
    task: dict[str, object], changes: dict[str, object], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        parse_spec({"name": "x", "task": {"script": "t.py", "launch": "spark", **task}, **changes})


def test_a_rank_of_spark_finds_the_master_beside_rank_0(tmp_path: Path) -> None:
    task = {"script": "train.py", "arguments": [], "launch": ["spark"]}
    order = Order(attempt="a", run="r", fence=1, num_ranks=2, world_size=4, spec=SpecDocument({"task": task}),
                  first_rank=2, spark_secret="key")  # fmt: skip
    folder = AttemptFolder(tmp_path / "a")
    folder.create(order)
    folders = dict.fromkeys(("cache", "checkpoints", "temporary"), tmp_path)
    start, go = RankStart("python3"), Go("10.0.0.1", 29500)
    launch = Launch(order, go, folder, **folders, address="10.0.0.2", isolation=NO_ISOLATION)
    plan = plan_rank(1, launch, start)
    assert plan.spark == SparkCluster("10.0.0.1", 29500, "10.0.0.2", "key")
    assert not {"RANK", "MASTER_ADDR"} & set(plan.environment)

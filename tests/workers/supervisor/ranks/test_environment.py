"""What ranks find in their environment, and what they do not."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workers.control import ControlledNode
from trainyard.contract.base import JsonObject
from workers.supervisor.ranks.environment import threads_of

SHOW = """
import json, os, shutil
programs = {name: shutil.which(name) for name in ("python", "torchrun")}
print(json.dumps({"environment": dict(os.environ), "programs": programs}))
"""
TORCHRUN = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK", "ROLE_NAME",
    "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
}  # fmt: skip


def shown(node: ControlledNode, script: str = SHOW, *, ranks: int = 1, restart: int = 0, **task: Any) -> JsonObject:
    spec = {"project": "physics", "restarts": {"max": 3}, "task": {"script": "train.py", **task}}
    order = node.order(script, ranks=ranks, spec=spec, restart=restart)
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["reason"] is None, report
    node.wait_until_shipped(order)
    found: JsonObject = json.loads(node.lines(order)[0])
    return found


def test_a_single_process_has_none_of_torchruns_variables(calm_node: ControlledNode) -> None:
    found = shown(calm_node)["environment"]
    assert not TORCHRUN & found.keys()
    assert (found["TRAINYARD_RANK"], found["TRAINYARD_RESTART"]) == ("0", "0")


def test_a_single_process_gets_them_where_the_spec_asks_for_them(calm_node: ControlledNode) -> None:
    found = shown(calm_node, distributed=True)["environment"]
    assert found.keys() >= TORCHRUN
    assert (found["RANK"], found["WORLD_SIZE"], found["GROUP_WORLD_SIZE"], found["ROLE_NAME"]) == (
        "0", "1", "1", "default",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "share", "threads"),
    [
        ({}, None, None),
        ({}, "8", "4"),
        ({}, "1", "1"),
        ({"OMP_NUM_THREADS": "3"}, "8", "3"),
        ({"OMP_NUM_THREADS": "3"}, None, "3"),
        ({"OMP_NUM_THREADS": "0"}, None, "1"),
        ({"OMP_NUM_THREADS": "4,2"}, "8", "4"),
    ],
)
def test_threads_are_those_of_the_users_variables_or_a_share_of_the_cores(
    own: dict[str, str], share: str | None, threads: str | None
) -> None:
    assert threads_of(own, share, num_ranks=2).get("TRAINYARD_THREADS") == threads


def test_a_run_of_an_array_finds_its_number_and_others_have_none(calm_node: ControlledNode) -> None:
    spec = {"project": "physics", "array": {"size": 8, "at_once": 2, "index": 3}, "task": {"script": "train.py"}}
    order = calm_node.order(SHOW, spec=spec)
    calm_node.launch(order)
    calm_node.wait_for(order, "ended")
    calm_node.wait_until_shipped(order)
    found = json.loads(calm_node.lines(order)[0])["environment"]
    assert (found["TRAINYARD_ARRAY_INDEX"], found["TRAINYARD_ARRAY_SIZE"]) == ("3", "8")
    assert "TRAINYARD_ARRAY_INDEX" not in shown(calm_node)["environment"]


def test_several_processes_have_all_of_them(calm_node: ControlledNode) -> None:
    found = shown(calm_node, ranks=2, restart=2)["environment"]
    assert found.keys() >= TORCHRUN
    assert (found["WORLD_SIZE"], found["ROLE_WORLD_SIZE"], found["TORCHELASTIC_RESTART_COUNT"]) == ("2", "2", "2")
    assert (found["TORCHELASTIC_MAX_RESTARTS"], found["TRAINYARD_RESTART"]) == ("3", "2")
    assert found["ROLE_RANK"] == found["RANK"]


def test_its_arguments_may_name_them_all_the_same(calm_node: ControlledNode) -> None:
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert shown(calm_node, script, arguments=["${RANK}/${WORLD_SIZE}"]) == ["0/1"]


def test_a_single_process_that_misses_them_is_told_where_they_come_from(calm_node: ControlledNode) -> None:
    order = calm_node.order("import torch.distributed as dist\ndist.init_process_group('gloo')")
    calm_node.launch(order)
    sentence = calm_node.wait_for(order, "ended")["reason"]["sentence"]
    assert "environment variable RANK expected, but not set" in sentence
    assert "where task.distributed is true" in sentence


@pytest.mark.parametrize("python", ["", sys.executable], ids=["warm", "cold"])
def test_programs_are_those_of_the_nodes_own_environment(calm_node: ControlledNode, python: str) -> None:
    programs = shown(calm_node, python=python)["programs"]
    bin_folder = str(Path(sys.executable).parent)
    assert programs == {"python": f"{bin_folder}/python", "torchrun": f"{bin_folder}/torchrun"}


def test_what_programs_need_on_this_machine_passes_and_nothing_else(
    home: Path, valkey: Any, python_without_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.delenv("LOGNAME", raising=False)
    node = ControlledNode(home, valkey.url, python=python_without_torch)
    node.start()
    try:
        found = shown(node)["environment"]
    finally:
        node.close()
    passed = {name: found.get(name) for name in ("https_proxy", "LD_LIBRARY_PATH", "NCCL_DEBUG", "USER")}
    assert passed == {
        "https_proxy": "http://proxy:3128",
        "LD_LIBRARY_PATH": "/opt/lib",
        "NCCL_DEBUG": "WARN",
        "USER": getpass.getuser(),
    }
    assert "secret" not in json.dumps(found)


def test_caches_last_for_the_project_and_are_shared_with_no_other(calm_node: ControlledNode) -> None:
    script = """
import json, os
places = [os.environ[name] for name in ("TORCH_HOME", "HF_HOME", "XDG_CACHE_HOME", "PIP_CACHE_DIR")]
seen = [os.path.exists(os.path.join(place, "mark")) for place in places]
for place in places:
    os.makedirs(place, exist_ok=True)
    open(os.path.join(place, "mark"), "w").close()
print(json.dumps({"seen": seen, "under": [place.startswith(os.environ["TRAINYARD_CACHE"]) for place in places]}))
"""
    first, second = shown(calm_node, script), shown(calm_node, script)
    assert (first["seen"], second["seen"]) == ([False] * 4, [True] * 4)
    assert all(first["under"])
    assert Path(shown(calm_node)["environment"]["XDG_CACHE_HOME"]).parent.name == "physics"

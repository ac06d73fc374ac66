"""What public scripts do, and others have stumbled over: each is a script, and what its run says. Warm and cold."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.workers.control import ControlledNode
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject
from workers.machine.processes import with_environment

WORDS = ["", " ", "a b", "'\"", "$HOME", "$(id)", "--lr=3e-4", "-", "ü\u00e9\U0001f680", "a\tb\nc", "\\n", "*"]


@dataclass(frozen=True)
class Situation:
    script: str
    lines: list[str]
    files: dict[str, str] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    holds: Callable[[JsonObject], bool] = lambda order: True


def has_ended_its_children(order: JsonObject) -> bool:
    return not with_environment(TRAINYARD_ATTEMPT=order["attempt"], IS_CHILD="yes")


SITUATIONS = {
    "a line of 2 MB": Situation(
        "print('x' * 2_000_000)\nprint('after')", [*(["x" * 65536] * 30), "x" * (2_000_000 - 30 * 65536), "after"]
    ),
    "arguments and variables, byte for byte": Situation(
        "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['MINE']]))",
        [json.dumps([WORDS, "".join(WORDS)])],
        task={"arguments": WORDS, "environment": {"MINE": "".join(WORDS)}},
    ),
    "packages with our names": Situation(
        "from workers.mine import word as a\nfrom runs import word as b\n"
        "from dashboard import word as c\nprint(a, b, c)",
        ["mine runs dashboard"],
        {
            "workers/__init__.py": "",
            "workers/mine.py": "word = 'mine'",
            "runs.py": "word = 'runs'",
            "dashboard/__init__.py": "word = 'dashboard'",
        },
    ),
    "a child in the background": Situation(
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " env={**os.environ, 'IS_CHILD': 'yes'}, start_new_session=True)\nprint('over')",
        ["over"],
        holds=has_ended_its_children,
    ),
    "an early exit with 0": Situation(
        "import sys\nprint('nothing to do')\nsys.exit(0)\nprint('never')", ["nothing to do"]
    ),
    "torchrun inside": Situation(
        "import subprocess, sys\n"
        "words = ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node=2', 'inner.py']\n"
        "sys.exit(subprocess.run([sys.executable, *words]).returncode)",
        ["sum 2"],
        {
            "inner.py": "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
            "one = torch.ones(1)\ndist.all_reduce(one)\n"
            "if dist.get_rank() == 0: print('sum', int(one))\ndist.destroy_process_group()"
        },
    ),
}


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_public_situations_come_out_right(calm_node: ControlledNode, task: dict[str, Any]) -> None:
    orders = {name: ordered(calm_node, one, name, task) for name, one in SITUATIONS.items()}
    for order in orders.values():
        calm_node.launch(order)
    found, ended = {}, {}
    for name, order in orders.items():
        ended[name] = calm_node.wait_for(order, "ended")["reason"], SITUATIONS[name].holds(order)
        calm_node.wait_until_shipped(order)
        found[name] = calm_node.lines(order)
    assert ended == dict.fromkeys(SITUATIONS, (None, True))
    assert found == {name: one.lines for name, one in SITUATIONS.items()}


def ordered(node: ControlledNode, situation: Situation, name: str, task: dict[str, Any]) -> JsonObject:
    source = node.base / f"{name.replace(' ', '-')}-{'cold' if task else 'warm'}"
    for path, text in {"train.py": situation.script, **situation.files}.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    data, sha256, _ = pack(source)
    (node.home / "cache" / "bundles" / sha256).write_bytes(data)
    spec = {"task": {"script": "train.py", "arguments": [], "environment": {}, **situation.task, **task}}
    return node.order(code={"sha256": sha256, "size_bytes": len(data)}, spec=spec)


def test_400_000_calls_that_log_one_metric_are_shipped_each_once(calm_node: ControlledNode) -> None:
    call = "run.log({'loss': step / 2}, step=step)"
    order = calm_node.order(f"import trainyard\nrun = trainyard.init()\nfor step in range(400_000):\n    {call}\n")
    calm_node.run(order)
    groups = [group for frame in calm_node.shipped(order) if frame.kind == "points" for group in frame.payload["g"]]
    steps = [step for _, names, steps, *_ in groups if names == ["loss"] for (step,) in struct.iter_unpack("<q", steps)]
    assert sorted(steps) == list(range(400_000))

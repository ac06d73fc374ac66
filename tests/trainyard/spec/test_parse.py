"""What a spec may say, and that everything else is refused by name."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.formats.names import without_hidden
from trainyard.spec import KINDS, RecipeSpec, ScriptSpec, SpecError, json_schema, merge, parse_spec, read_spec

RECIPE: dict[str, Any] = {"name": "hello-gpt", "task": {"recipe": "language-model"}}
SCRIPT: dict[str, Any] = {"name": "mine", "task": {"script": "train.py"}}
GIT = "https://example.org/team/code.git"


def refusals(document: object) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(document)
    return {problem.path: problem.message for problem in caught.value.errors}


@pytest.mark.parametrize("task", [{"recipe": "gpt"}, {}, {"recipe": "language-model", "script": "train.py"}])
def test_a_task_of_no_kind_hides_no_other_fault(task: dict[str, Any]) -> None:
    document = {"task": task, "resources": {"nodes": 0, "gpus": 1}, "limits": {"time": "soon"}, "train": {"steps": -1}}
    found = refusals(document)
    assert {"name", "resources.nodes", "resources.gpus", "limits.time"} < found.keys()
    assert len([path for path in found if path.startswith("task")]) == 1
    assert "train.steps" not in found, "only a kind says what it trains"


def test_the_shortest_recipe_is_filled_in() -> None:
    spec = parse_spec(RECIPE)
    assert isinstance(spec, RecipeSpec)
    resolved = spec.resolved()
    assert resolved["project"] == "default" and resolved["cluster"] == "local"
    assert resolved["task"]["model"] == {
        "layers": 4,
        "width": 128,
        "heads": 4,
        "kv_heads": "auto",
        "context": 128,
        "base_width": 0,
    }
    assert resolved["train"]["steps"] == 300 and resolved["parallel"]["data"] == "auto"
    assert json.loads(json.dumps(resolved)) == resolved
    assert spec.world_size() == 1 and spec.world_size(3) == 3
    assert spec.bundle_sha256 is None


def test_the_shortest_script_has_no_training_settings() -> None:
    spec = parse_spec(SCRIPT)
    assert isinstance(spec, ScriptSpec)
    assert spec.resolved()["task"] == {
        "script": "train.py",
        "module": "",
        "command": [],
        "notebook": False,
        "arguments": [],
        "code": ".",
        "python": "",
        "distributed": False,
        "shadow": False,
        "launch": ["torchrun"],
        "environment": {},
        "secrets": [],
    }
    assert not {"train", "parallel"} & spec.resolved().keys()
    digest = "ab" * 32
    assert parse_spec(merge(SCRIPT, {"task.code": {"sha256": digest}})).bundle_sha256 == digest


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Größe 1: a/b & c"},
        {"tags": ["anything <b> goes", "größe"]},
        {"resources": {"nodes": 2, "processes_per_node": 4, "accelerator": "gpu"}, "train.batch_size": 64},
        {"resources.nodes": 2, "parallel.data": 2},
        {"train.learning_rate": 1},
        {"train.learning_rate": "1e-3"},
        {"train.learning_rate": "3E-4"},
        {"train.optimizer": "sgd", "train.schedule": "linear", "train.warmup_steps": 0},
        {"train.steps": 5},
        {"train.batch_size": 12, "train.accumulate": 3},
        {"train.validate_every_steps": 0, "train.gradient_clip": 0, "train.weight_decay": 0},
        {"task.environment": {"NCCL_DEBUG": "INFO", "_x": ""}},
        {"restarts": {"max": 0}, "parallel.synchronization": {"kind": "every-step"}},
        {"train.precision": "bf16", "train.activation_checkpointing": "selective", "train.compile": True},
        {"train.schedule": "warmup-stable-decay", "train.optimizer": "muon"},
        {"checkpoint": {"every_steps": 0, "restore": "272bay33uw@200"}, "early_stopping.patience": 3},
    ],
    ids=str,
)
def test_it_accepts(changes: dict[str, Any]) -> None:
    resolved = parse_spec(merge(RECIPE, changes)).resolved()
    assert parse_spec(resolved).resolved() == resolved


def test_fewer_steps_than_the_usual_warm_up_shorten_it() -> None:
    assert parse_spec(merge(RECIPE, {"train.steps": 5})).resolved()["train"]["warmup_steps"] == 5


def test_numbers_as_text_are_numbers_afterwards() -> None:
    assert parse_spec(merge(RECIPE, {"train.learning_rate": "1e-3"})).resolved()["train"]["learning_rate"] == 0.001


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"name": ""}, "name", "must have at least 1 character"),
        ({"name": "  "}, "name", "must not be blank"),
        ({"name": "x" * 121}, "name", "at most 120 characters"),
        ({"name": "a<b"}, "name", 'no < and no >, not "a<b"'),
        ({"name": "a\nb"}, "name", "no control characters"),
        ({"name": 5}, "name", "must be text, not 5; put it in quotes"),
        ({"name": None}, "name", "must be text, not null"),
        ({"project": "no spaces"}, "project", "letters, digits, - and _"),
        ({"cluster": "../x"}, "cluster", "letters, digits, - and _"),
        ({"tags": "one"}, "tags", 'must be a list, not "one"'),
        ({"tags": ["one", 2]}, "tags.1", "must be text, not 2"),
        ({"bogus": 1}, "bogus", "is not a field of a spec (its value is 1); accepted here: name, project"),
        ({"train.batchsize": 1}, "train.batchsize", "accepted here: steps, batch_size"),
        ({"resources": 2}, "resources", "must be a map, not 2"),
        ({"resources.nodes": 0}, "resources.nodes", "must be at least 1, not 0"),
        ({"resources.nodes": 1.0}, "resources.nodes", "must be a whole number, not 1.0"),
        ({"resources.nodes": "2"}, "resources.nodes", 'must be a whole number, not "2"'),
        ({"resources.nodes": True}, "resources.nodes", "must be a whole number, not true"),
        ({"resources.accelerator": "tpu"}, "resources.accelerator", 'must be auto, cpu or gpu, not "tpu"'),
        ({"task.recipe": "vision"}, "task.recipe", 'communication-benchmark, not "vision"'),
        ({"task.data.source": "c4"}, "task.data.source", 'must be python-stdlib, text or jsonl, not "c4"'),
        ({"parallel.data": "all"}, "parallel.data", 'must be auto or a whole number from 1 to 1,000,000, not "all"'),
        ({"parallel.data": True}, "parallel.data", "must be auto or a whole number"),
        ({"train.steps": 0}, "train.steps", "must be at least 1, not 0"),
        ({"train.learning_rate": 0}, "train.learning_rate", "must be more than 0, not 0"),
        ({"train.learning_rate": "fast"}, "train.learning_rate", 'must be a number, not "fast"'),
        ({"train.learning_rate": "1_0"}, "train.learning_rate", "must be a number"),
        ({"train.learning_rate": "0x10"}, "train.learning_rate", "must be a number"),
        ({"train.learning_rate": True}, "train.learning_rate", "must be a number, not true"),
        ({"train.learning_rate": math.nan}, "train.learning_rate", "must be a finite number, not NaN"),
        ({"train.weight_decay": "1e999"}, "train.weight_decay", "must be a finite number"),
        ({"train.optimizer": "adam"}, "train.optimizer", 'must be adamw, sgd or muon, not "adam"'),
        ({"train.seed": 2**63}, "train.seed", "must be at most"),
        ({"restarts.max": -1}, "restarts.max", "must be at least 0, not -1"),
        ({"restarts.window": 0}, "restarts.window", 'must be more than 0s and at most 365d, not "0"'),
        ({"restarts.window": -5}, "restarts.window", "must be a length of time such as 90s, 45m, 2h or"),
        ({"restarts.backoff": "1h"}, "restarts.backoff", 'must be at most 5m, not "1h"'),
        ({"restarts.on": {"kiled": "stop"}}, "restarts.on.kiled", "must be user-error, data-problem"),
        ({"restarts.on": {"killed": "go"}}, "restarts.on.killed", 'must be restart, stop or exclude-node, not "go"'),
        ({"restarts.on": {"data-problem": "restart"}}, "restarts.on", "must be stop for data-problem"),
        ({"restarts.on": ["killed"]}, "restarts.on", 'must be a map, not ["killed"]'),
        ({"task.environment": {"A-B": "1"}}, "task.environment", 'letters, digits and _, not "A-B"'),
        ({"task.environment": {"RANK": "1"}}, "task.environment", '"RANK", which the node sets itself'),
        ({"task.environment": {"TRAINYARD_RUN": "1"}}, "task.environment", "which the node sets itself"),
        ({"task.environment": {"A": 1}}, "task.environment.A", "must be text, not 1; put it in quotes"),
        ({"name": "a\0b"}, "name", "has a NUL"),
        ({"tags": ["\ud800"]}, "tags.0", "half a character"),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, dict) else ascii(value)[:40],
)
def test_it_refuses(changes: dict[str, Any], path: str, message: str) -> None:
    found = refusals(merge(RECIPE, changes))
    assert message in found[path], found
    assert len(found) == 1


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"train.steps": 3}, "train", "means nothing to a script"),
        ({"parallel.shard": 1}, "parallel", "means nothing to a script"),
        ({"checkpoint.keep": 3}, "checkpoint", "means nothing to a script"),
        ({"early_stopping.patience": 1}, "early_stopping", "means nothing to a script"),
        ({"task.recipe": "language-model"}, "task", "both a recipe and a script"),
        ({"task": {}}, "task", "no recipe and no script"),
        ({"task": "train.py"}, "task", 'must be a map, not "train.py"'),
        ({"task.script": "/etc/train.py"}, "task.script", "inside the code's folder"),
        ({"task.script": "../train.py"}, "task.script", "inside the code's folder"),
        ({"task.script": "a\\b.py"}, "task.script", "inside the code's folder"),
        ({"task.script": "."}, "task.script", "inside the code's folder"),
        ({"task.arguments": "--lr 3"}, "task.arguments", "must be a list"),
        ({"task.arguments": ["--lr", 3e-4]}, "task.arguments.1", "must be text, not 0.0003; put it in quotes"),
        ({"task.code": {"sha256": "AB"}}, "task.code", '64 digits 0-9 and a-f, not "AB"'),
        ({"task.code": {}}, "task.code", "must be a folder such as . or a map"),
        ({"task.code": " "}, "task.code", "must be a folder such as . or a map"),
        ({"task.module": "pkg.train"}, "task.script", '"train.py" stands beside task.module "pkg.train"; exactly one'),
        ({"task.command": ["ls"]}, "task.script", 'stands beside task.command ["ls"]; exactly one'),
        ({"task.script": ""}, "task.script", "is required: a script, or in its place a task.module or a task.command"),
        ({"task.script": "", "task.module": "pkg/train.py"}, "task.module", "a file goes into task.script"),
        ({"task.script": "", "task.module": "pkg..train"}, "task.module", "dotted name such as pkg.train"),
        ({"task.script": "", "task.module": "class"}, "task.module", "dotted name such as pkg.train"),
        ({"task.script": "", "task.command": "ls -l"}, "task.command", 'must be a list, not "ls -l"'),
        ({"task.script": "", "task.command": [""]}, "task.command", "must begin with a program"),
        ({"task.script": "", "task.command": ["../up"]}, "task.command", "does not lead upwards"),
        ({"task.script": "", "task.command": ["ls", "${NOBODY}"]}, "task.command.1", "names ${NOBODY}, which no rank"),
        ({"task.code": {"git": "ftp://example.org/a"}}, "task.code", "git: must be one of https, http, ssh, file"),
        ({"task.code": {"git": "https://me:pw@example.org/a"}}, "task.code", "git: must have no user and no password"),
        ({"task.code": {"git": "ext::sh -c true"}}, "task.code", "git: must be a URL such as"),
        ({"task.code": {"git": "--upload-pack=x"}}, "task.code", "git: must be a URL such as"),
        ({"task.code": {"git": "-oProxyCommand=x:y"}}, "task.code", "git: must be a URL such as"),
        ({"task.code": {"git": "https://-x/a"}}, "task.code", "git: must name a host"),
        ({"task.code": {"git": "https://example.org/"}}, "task.code", "git: must name a repository"),
        ({"task.code": {"git": "https://example.org/team/../other/code"}}, "task.code", "git: must have no .. in it"),
        ({"task.code": {"git": "https://example.org/team/%2e%2E/other"}}, "task.code", "git: must have no .. in it"),
        ({"task.code": {"git": "git@example.org:../other/code"}}, "task.code", "git: must have no .. in it"),
        ({"task.code": {"git": GIT, "revision": "--help"}}, "task.code", "revision: must be a branch, a tag or a com"),
        ({"task.code": {"git": GIT, "revision": "a..b"}}, "task.code", "revision: must be a branch, a tag or a commit"),
        ({"task.code": {"git": GIT, "path": "../x"}}, "task.code", "path: must be a folder inside the repository"),
        ({"task.code": {"git": GIT, "brnch": "x"}}, "task.code", "accepted here: git, revision, path"),
        ({"task.code": {"git": GIT, "submodules": "yes"}}, "task.code", "submodules: must be true or false"),
        ({"task.code": {"git": GIT, "lfs": 1}}, "task.code", "lfs: must be true or false"),
        ({"task.python": "venv/bin/python"}, "task.python", "an absolute path or a name on the node's PATH, such as"),
        ({"task.python": "/opt/../bin/python"}, "task.python", "an absolute path or a name"),
        ({"task.python": "/"}, "task.python", "an absolute path or a name"),
        ({"task.python": "python\n3"}, "task.python", "an absolute path or a name"),
        ({"task.python": 3}, "task.python", "must be text, not 3"),
        ({"task.model": {}}, "task.model", "is not a field of a spec"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_script_refuses(changes: dict[str, Any], path: str, message: str) -> None:
    found = refusals(merge(SCRIPT, changes))
    assert message in found[path], found
    assert len(found) == 1


@pytest.mark.parametrize(
    ("code", "url", "revision"),
    [
        ({"git": GIT}, GIT, "HEAD"),
        (f"{GIT}@v1.0", GIT, "v1.0"),
        (GIT, GIT, "HEAD"),
        ("git@example.org:team/code.git@main", "git@example.org:team/code.git", "main"),
        ("git@example.org:code.git", "git@example.org:code.git", "HEAD"),
        (
            {"git": "ssh://git@example.org:2222/code", "revision": "feature/x"},
            "ssh://git@example.org:2222/code",
            "feature/x",
        ),
        ({"git": "file:///srv/code.git"}, "file:///srv/code.git", "HEAD"),
    ],
    ids=str,
)
def test_code_may_be_a_commit_of_a_repository(code: Any, url: str, revision: str) -> None:
    spec = parse_spec(merge(SCRIPT, {"task.code": code}))
    assert isinstance(spec, ScriptSpec) and spec.git_code is not None
    assert (spec.git_code.git, spec.git_code.revision) == (url, revision)
    assert spec.bundle_sha256 is None
    assert parse_spec(spec.resolved()) == spec


@pytest.mark.parametrize(
    ("task", "files", "field"),
    [
        ({"script": "train.py"}, ["train.py"], ""),
        ({"script": "train.py"}, ["src/train.py"], "script"),
        ({"module": "pkg.train"}, ["pkg/train.py"], ""),
        ({"module": "pkg"}, ["pkg/__init__.py", "pkg/__main__.py"], ""),
        ({"module": "pkg.tarin"}, ["pkg/train.py"], "module"),
        ({"module": "torch.distributed.run"}, ["train.py"], ""),
        ({"command": ["./train.sh", "x"]}, ["train.sh"], ""),
        ({"command": ["bin/train"]}, ["train"], "command"),
        ({"command": ["python3", "train.py"]}, [], ""),
        ({"command": ["/opt/bin/train"]}, [], ""),
    ],
    ids=str,
)
def test_what_the_code_does_not_have_is_known_before_it_is_launched(
    task: dict[str, Any], files: list[str], field: str
) -> None:
    spec = parse_spec({"name": "mine", "task": task})
    assert isinstance(spec, ScriptSpec)
    assert spec.task.missing_in(files)[0] == field


@pytest.mark.parametrize("python", ["/opt/with space/bin/python", "python3.12", "/usr/bin/python3"])
def test_a_script_may_bring_its_own_python(python: str) -> None:
    assert parse_spec(merge(SCRIPT, {"task.python": python})).resolved()["task"]["python"] == python


def test_the_nodes_own_python_may_be_said() -> None:
    assert parse_spec(merge(SCRIPT, {"task.python": None})).resolved() == parse_spec(SCRIPT).resolved()


def test_every_problem_is_told_at_once() -> None:
    found = refusals(merge(RECIPE, {"train.steps": 0, "restarts.max": -3, "bogus": 1, "name": "<"}))
    assert found.keys() == {"train.steps", "restarts.max", "bogus", "name"}


@pytest.mark.parametrize("document", [None, [], "text", 5, [RECIPE], {1: 2}, {"\ud800": 1}], ids=ascii)
def test_what_is_no_document_is_refused(document: object) -> None:
    assert refusals(document).keys() == {""}


def test_a_document_without_end_is_refused() -> None:
    endless: dict[str, Any] = {**RECIPE}
    endless["again"] = endless
    wide: dict[str, Any] = {**RECIPE, "tags": ["x"] * 60_000}
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert "levels deep" in refusals(endless)[""]
    assert "values" in refusals(wide)[""]
    assert "levels deep" in refusals({**RECIPE, "tags": deep})[""]


def test_a_spec_that_a_node_could_not_carry_is_refused() -> None:
    document = merge(SCRIPT, {"task.arguments": ["x" * 9_000] * 30})
    assert "at most 262,144 are accepted" in refusals(document)[""]


def test_the_schema_names_every_section() -> None:
    schema = json_schema()
    assert {kind.__name__ for kind in KINDS.values()} | {"Train", "Parallel"} <= schema["$defs"].keys()


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=10), children, max_size=4),
    max_leaves=20,
)


@given(junk)
def test_junk_raises_nothing_but_spec_error(document: object) -> None:
    with contextlib.suppress(SpecError):
        parse_spec(document)


PATHS = [
    "task.module",
    "task.command",
    "name",
    "project",
    "tags",
    "task",
    "task.recipe",
    "task.model",
    "task.model.heads",
    "task.data.source",
]
PATHS += ["task.environment", "task.code", "task.arguments", "task.python", "resources", "resources.nodes", "parallel"]
PATHS += ["parallel.data", "parallel.pipeline", "train", "train.steps", "train.learning_rate", "train.warmup_steps"]
PATHS += ["parallel.shard", "parallel.tensor", "parallel.pipeline.stages", "parallel.pipeline.microbatches"]
PATHS += ["parallel.synchronization", "parallel.compression", "checkpoint.restore", "early_stopping.patience"]
PATHS += ["train.compile", "train.seed", "checkpoint", "early_stopping", "restarts", "restarts.max", "restarts.on"]
PATHS += ["restarts.window", "elsewhere"]


@given(st.sampled_from([RECIPE, SCRIPT]), st.dictionaries(st.sampled_from(PATHS), junk, min_size=1, max_size=3))
def test_junk_in_a_field_raises_nothing_but_spec_error(base: dict[str, Any], changes: dict[str, Any]) -> None:
    with contextlib.suppress(SpecError):
        resolved = parse_spec(merge(base, changes)).resolved()
        assert parse_spec(resolved).resolved() == resolved
        json.dumps(resolved, allow_nan=False)


@given(
    nodes=st.integers(1, 8),
    each=st.integers(1, 4),
    part=st.integers(1, 5),
    accumulate=st.integers(1, 3),
    heads=st.integers(1, 8),
    steps=st.integers(1, 10**9),
    rate=st.floats(1e-12, 1000) | st.integers(1, 1000),
    seed=st.integers(0, 2**63 - 1),
    tags=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(without_hidden),
        max_size=3,
    ),
)
def test_what_is_filled_in_stays_as_it_is(
    nodes: int, each: int, part: int, accumulate: int, heads: int, steps: int, rate: float, seed: int, tags: list[str]
) -> None:
    document = merge(
        RECIPE,
        {
            "tags": tags,
            "resources": {"nodes": nodes, "processes_per_node": each},
            "task.model": {"heads": heads, "width": heads * 2 * part},
            "train": {"steps": steps, "learning_rate": rate, "seed": seed, "accumulate": accumulate}
            | {"batch_size": nodes * each * accumulate * part},
        },
    )
    spec = parse_spec(document)
    assert parse_spec(spec.resolved()) == spec
    assert spec.world_size() == nodes * each


def test_a_rank_reads_what_a_server_of_another_version_has_sent() -> None:
    spec = parse_spec({"name": "one", "task": {"recipe": "language-model"}})
    sent = spec.resolved()
    assert read_spec(sent) == spec
    del sent["limits"], sent["train"]["compile"]
    sent["later"], sent["train"]["later"] = 1, 2
    assert read_spec(sent) == spec
    sent["train"]["steps"] = 0
    with pytest.raises(SpecError, match=r"train\.steps: must be at least 1, not 0"):
        read_spec(sent)

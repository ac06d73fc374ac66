"""Pages of attacks and faults name tests that are there, and the server calls nothing that runs what others send."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("attacks.md", "faults.md")]
SERVER = ("runs", "dashboard")
# On a cluster's own machine, where Ray has its code taken along by value.
ELSEWHERE = {"runs/engines/ray/trainyard_ray/__main__.py"}
MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal"}
# Where bytes of other machines are read: by the decoders of trainyard.contract alone, which raise one thing.
READERS = (
    "runs/ingest", "runs/life/reconcile", "runs/life/preflight", "runs/records/metrics", "runs/records/media",
    "runs/records/checkpoints", "runs/records/files", "runs/causes", "runs/interactive", "runs/api/machines",
    "runs/api/training", "dashboard/proxy", "dashboard/sockets",
    "workers/transport", "workers/node", "workers/supervisor", "workers/interactive", "workers/replicas",
    "trainyard/contract",
)  # fmt: skip
DECODERS = re.compile(r"(json|msgpack|orjson|marshal|pickle)\.(loads?|decode|unpackb?|Decoder|Unpickler)$")
OWN = {
    "runs/ingest/memory.py": "a row of the server's database",
    "trainyard/contract/base.py": "the decoder of documents",
    "trainyard/contract/records.py": "the decoder of records",
}
CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "yaml.unsafe_load", "yaml.full_load"}


def test_every_test_on_the_pages_is_there() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", "".join(page.read_text() for page in PAGES)))
    assert len(named) > 50
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_server_runs_nothing_that_others_send() -> None:
    found = [f"{path}:{line}: {words}" for path, tree in trees() for line, words in dangers(tree)]
    assert found == []


def test_bytes_of_other_machines_are_read_by_the_decoders_of_the_contract() -> None:
    found = [
        f"{path}:{line}: {words}" for path, tree in trees(READERS) if path not in OWN for line, words in decoders(tree)
    ]
    assert found == []
    assert all(list(decoders(ast.parse((ROOT / path).read_text()))) for path in OWN)


def test_the_check_is_checked() -> None:
    source = "import pickle\nsubprocess.run('x', shell=True)\neval(text)\nyaml.load(text, Loader=yaml.Loader)\n"
    assert [line for line, _ in dangers(ast.parse(source))] == [1, 2, 3, 4]
    assert list(dangers(ast.parse("redis().eval(SCRIPT)\nyaml.load(text, Loader=_Loader)\n"))) == []


def trees(folders: tuple[str, ...] = SERVER) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(one for folder in folders for one in (ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name not in ELSEWHERE:
            yield name, ast.parse(path.read_text())


def decoders(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and DECODERS.search(name := ast.unparse(node.func)):
            yield node.lineno, name


def dangers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            if MODULES & {name.split(".")[0] for name in names}:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and _is_dangerous(node):
            yield node.lineno, ast.unparse(node)


def _is_dangerous(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    words = {one.arg: ast.unparse(one.value) for one in call.keywords}
    loader = words.get("Loader", "yaml.Loader")
    is_loose = name == "yaml.load" and loader.startswith("yaml.") and "Safe" not in loader
    return name in CALLS or words.get("shell") == "True" or is_loose

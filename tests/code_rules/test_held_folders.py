"""The node and the supervisor, which may be root, reach nothing by a path in folders that ranks write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Run as the user of a project's ranks, in their sandbox.
AS_RANKS = ("workers/training/", "workers/rank_process/", "workers/progress/", "workers/environments/builder.py")
# Where folders that ranks write are at hand.
BESIDE_RANKS = (
    "trainyard/spooling/",
    "workers/attempt/",
    "workers/environments/content.py",
    "workers/environments/store.py",
    "workers/forking/",
    "workers/node/output/",
    "workers/node/finished.py",
    "workers/node/dead_supervisors.py",
    "workers/supervisor/",
)
# Go through whole trees, or give files away.
TREES = re.compile(
    r"(shutil\.(rmtree|copytree|copy\w*|move|chown)|os\.(walk|fwalk|listdir|chown|lchown|chmod)"
    r"|tempfile\.TemporaryDirectory|\.(rglob|chmod))\("
)
OPENING = re.compile(
    r"((^|[^\w.])open|os\.(open|rename|replace|unlink|remove|mkdir|makedirs|scandir|stat|link|symlink|truncate|utime)"
    r"|\.(open|read_text|read_bytes|write_text|write_bytes|touch|mkdir|rename|unlink|symlink_to|hardlink_to|iterdir"
    r"|glob|rmdir|stat|exists|is_file|is_dir|resolve))\("
)
OWN = "a name that only the node and the supervisor may change"
LOOK = "tells a time or that something is there, and opens nothing"
NEW = "makes or removes a name in a folder whose own name is the node's; no link is followed"
ALLOWED = {
    r"HeldFolder\.open\(|one\.open\(\)|\.descriptor\)|(folder|old)\.stat\(": "the module itself",
    r"^trainyard/spooling/(held_folder|plain_files)\.py: ": "the module itself, and single files beside it",
    r"^trainyard/spooling/reader\.py: .*\.exists\(\)": LOOK,
    r"^trainyard/spooling/(ledger|writer)\.py: ": NEW,
    r"_mark\.|[^\w]mark\.|sent_mark\(|reserve\.|\(?self\._lock|self\.(lock|_record_path|root|path)\.": OWN,
    r"^workers/attempt/folder\.py: (self\.sdk|\(self\.sdk|folder\.mkdir|\(home / 'attempts'\))": OWN,
    r"^workers/attempt/temporary\.py: ": "a link in a folder of all users, which is never followed",
    r"os\.open\(os\.devnull|/proc/|\bproc / |PROC / |table\.read_text": "the kernel's",
    r"store\.py: (os\.(open|utime)\(self\._?(path|desc)|\(?folder( / 'store'\))?\.(mkdir|chmod))": OWN,
    r"socket_path\(|self\._folder\.spool\.is_dir": OWN,
    r"(joined|joining|exit)_path\(.*\)\.(exists|stat)\(\)|hangs/watch\.py: path\.exists": LOOK,
    r"^workers/supervisor/records/log_tail\.py: .*\.glob\(": "lists a folder whose name is the node's",
    r"^workers/supervisor/container\.py: ": "what the operator named, the attempt's own folders, the machine's devices",
    r"^workers/supervisor/ranks/launch\.py: .*\b(place\b|one\.chmod)": "a folder beside those that ranks write",
    r"^workers/supervisor/ranks/state\.py: path\.read_text": "a pid file that ranks cannot write",
    r"confinement\.py: os\.chown": "a folder that was just made under a random name, in a sticky folder",
    r"^workers/replicas/(receiving|folders)\.py: ": "the peer's side, which ranks cannot write",
    r"/(probe|podman)\.py: tempfile\.TemporaryDirectory": "nobody but our own probe writes there",
    r"^workers/sandbox/(node|probe)\.py: .*\.chmod\(": "folders of the node's home",
    r"^workers/node/preparation/orders\.py: .*\.chmod\(": "code that was just laid out, which no rank reaches yet",
}


def test_folders_that_ranks_write_are_reached_through_the_one_module() -> None:
    found = [call for call in calls() if not any(re.search(one, call) for one in ALLOWED)]
    assert found == [], "use trainyard.spooling.held_folder, or name the reason in ALLOWED"


def test_every_exception_is_still_needed() -> None:
    here = list(calls())
    assert [one for one in ALLOWED if not any(re.search(one, call) for call in here)] == []


def test_the_check_is_checked() -> None:
    bad = "open(path)\npath.read_text()\nshutil.rmtree(path)\nos.walk(root)\nos.chown(path, 1, 1)\nos.open(path, 0)\n"
    assert [line for line, _ in reaching(ast.parse(bad), is_beside=True)] == [1, 2, 3, 4, 5, 6]
    assert [line for line, _ in reaching(ast.parse(bad), is_beside=False)] == [3, 4, 5]
    assert list(reaching(ast.parse("os.open(name, 0, dir_fd=held)\nremove_tree(path)\n"), is_beside=True)) == []


def calls() -> Iterator[str]:
    for path in sorted([*ROOT.glob("workers/**/*.py"), *ROOT.glob("trainyard/spooling/*.py")]):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(AS_RANKS):
            for _, text in reaching(ast.parse(path.read_text()), is_beside=name.startswith(BESIDE_RANKS)):
                yield f"{name}: {text}"


def reaching(tree: ast.Module, *, is_beside: bool) -> Iterator[tuple[int, str]]:
    """Yield line and text of the calls that reach files by their paths."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not {"dir_fd", "src_dir_fd"} & {one.arg for one in node.keywords}:
            called = f"{ast.unparse(node.func)}("
            ends = [
                pattern
                for pattern in (TREES, OPENING)
                if any(hit.end() == len(called) for hit in pattern.finditer(called))
            ]
            if TREES in ends or (OPENING in ends and is_beside):
                found.append((node.lineno, ast.unparse(node)))
    return iter(sorted(found))

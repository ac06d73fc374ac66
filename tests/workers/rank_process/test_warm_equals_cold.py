"""A warm rank is a fork, a cold one an interpreter of its own: no script is to tell one from the other."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workers.control import ControlledNode
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject

# Each prints lines; what may differ by nature (numbers of processes, addresses) it leaves out.
# These become one script. The hooks come last: they change what others would find.
FINDINGS = {
    "main": """
import sys
import __main__
names = sorted(name for name in vars(__main__) if name.startswith("__"))
print(names, __name__, __doc__, __package__, __spec__, type(__loader__).__name__, __annotations__, __cached__)
print(__file__.rpartition("/")[2], sys.argv[0] == __file__, sys.argv[1:], len(sys.orig_argv))
""",
    "path": """
import os, sys
print(sys.path[0] == os.getcwd(), [os.path.basename(p) for p in sys.path[1:5]], sys.executable, sys.prefix)
import trainyard
print(trainyard.__name__)
""",
    "environment": """
import os
skipped = ("TRAINYARD_ATTEMPT", "TRAINYARD_RUN", "PYTHONUNBUFFERED", "MASTER_PORT")
for name, value in sorted(os.environ.items()):
    if name not in skipped:
        print(name, value.replace(os.environ["TRAINYARD_ATTEMPT"], "ATTEMPT"))
""",
    "folders": """
import os, tempfile
print(os.path.basename(os.getcwd()), oct(os.umask(0o22)), tempfile.gettempdir() == os.environ["TMPDIR"])
with tempfile.NamedTemporaryFile() as file:
    print(file.name.startswith(os.environ["TMPDIR"]))
""",
    "descriptors": """
import os
print(sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print(os.readlink("/proc/self/fd/0"), os.readlink("/proc/self/fd/1").rpartition("/")[2])
""",
    "signals": """
import signal
crashes = ("SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV")  # which faulthandler has
for number in signal.Signals:
    number.name in crashes or print(number.name, str(signal.getsignal(number)).partition(" at ")[0])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1))
""",
    "encodings": """
import codecs, locale, sys
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering, stream.write_through)
    print(type(stream).__name__, type(stream.buffer).__name__, stream.isatty(), stream.closed)
print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding(), sys.getdefaultencoding())
print(codecs.lookup("utf-8").name, "\\u00e4\\u20ac")
""",
    "threads": """
import sys, threading
print(threading.active_count(), threading.current_thread().name, threading.current_thread() is threading.main_thread())
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
import gc
print(gc.isenabled(), gc.get_threshold())
""",
    "warnings": """
import warnings
warnings.warn("look", UserWarning)
warnings.warn("old", DeprecationWarning)
warnings.warn("old", PendingDeprecationWarning)
""",
    "own workers": """
import workers
from workers.mine import word
print(workers.__file__.rpartition('/code/')[2], word)
""",
    "subprocess": """
import shutil, subprocess, sys
print(shutil.which("python"), subprocess.run(["python", "-c", "print(__import__('sys').prefix)"],
      capture_output=True, text=True).stdout.strip() == sys.prefix)
""",
    "stdin": "import sys\nprint(repr(sys.stdin.read()), sys.stdin.buffer.peek())",
    "random": """
import random, uuid
print(random.getstate()[0], len({random.random() for _ in range(100)}), uuid.uuid4().version)
""",
    "hooks": """
import logging, sys, threading, warnings
print(sys.excepthook.__name__, sys.displayhook.__name__, sys.unraisablehook.__name__, threading.excepthook is not None)
print(logging.root.handlers, logging.root.level, logging.lastResort is not None)
logging.basicConfig(level="INFO")
logging.info("seen")
""",
}
SCRIPTS = {
    "findings": "".join(FINDINGS.values()),
    "no names of ours": """
import importlib.util
import sys
print([name for name in sys.modules if name.split(".")[0] in ("workers", "runs", "dashboard")])
try:
    print(importlib.util.find_spec("traceback") is not None)
finally:
    import structlog
""",
    "exit code": "import sys\nsys.exit(7)",
    "exit words": "import sys\nsys.exit('no data')",
    "exit by nothing": "raise SystemExit",
    "raise": """
def inner():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ValueError("too deep") from error

inner()
""",
    "syntax": "def f(:\n",
    "os._exit": "import os, sys\nprint('said')\nos._exit(9)",
    "signal": "import os, signal\nprint('said', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "raise KeyboardInterrupt",
    "hook": """
import sys
sys.excepthook = lambda kind, value, trace: print("hooked", kind.__name__, value, trace.tb_lineno)
raise ValueError("mine")
""",
    "atexit": """
import atexit, sys, threading, time
atexit.register(print, "first registered")
atexit.register(print, "last registered")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread over"))).start()
threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
print("main over")
""",
    "left open": """
import os
file = open("left.txt", "w")
file.write("not flushed")
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
""",
    "processes": """
import multiprocessing, os
import trainyard
def work(number):
    return number * 2, __name__, trainyard.__name__
if __name__ == "__main__":
    for kind in ("spawn", "fork"):
        with multiprocessing.get_context(kind).Pool(2) as pool:
            print(kind, pool.map(work, range(3)))
""",
    "forked": """
import os, sys
pid = os.fork()
if pid == 0:
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
}
RELATIVE = """
import sys
from . import helpers
from .helpers import word
print(word, __name__, __package__, __spec__.name, __spec__.origin == __file__, sys.argv[0] == __file__, sys.path[0])
"""
MODULES = {
    "findings": SCRIPTS["findings"].replace("import sys\n", RELATIVE, 1),
    "raise": SCRIPTS["raise"],
    "syntax": SCRIPTS["syntax"],
    "exit code": SCRIPTS["exit code"],
    "processes": SCRIPTS["processes"],
    "left open": SCRIPTS["left open"],
}
# Of a module what it sees and how it raises; the rest differs from a script's by no line of ours.
AS_OF_A_SCRIPT = {"syntax", "exit code", "processes", "left open"}
OWN = {"helpers.py": "word = 'helped'\n", "workers/__init__.py": "", "workers/mine.py": "word = 'my own'\n"}


def ended(node: ControlledNode, text: str, tmp_path: Path, **task: Any) -> JsonObject:
    """Return all that is seen from outside of a rank that ran the script beside OWN."""
    tmp_path.mkdir(exist_ok=True)
    files = {"train.py": text, **{f"pkg/{name}": content for name, content in (("train.py", text), *OWN.items())}}
    for name, content in {**OWN, **files, "pkg/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    data, sha256, _ = pack(tmp_path)
    (node.home / "cache" / "bundles" / sha256).write_bytes(data)
    spec = {"task": {"script": "train.py", "arguments": ["--lr", "3e-4"], **task}}
    order = node.order(spec=spec, code={"sha256": sha256, "size_bytes": len(data)})
    node.launch(order)
    report = node.wait_for(order, "ended")
    node.wait_until_shipped(order)
    rank, folder = report["ranks"][0], node.folder(order["attempt"])
    texts = {stream: node.lines(order, stream) for stream in ("stdout", "stderr")}
    evidence = (report["reason"] or {"evidence": {}})["evidence"]
    left = {path.name: path.read_text() for path in folder.code.glob("*.txt")}
    found = json.dumps(
        {
            "code": rank["exit_code"],
            "signal": rank["signal"],
            "evidence": {name: evidence.get(name) for name in ("stdout", "stderr")},
            "left": left,
            **texts,
        }
    )
    found = found.replace(order["attempt"], "ATTEMPT")
    return json.loads(re.sub(r"0x[0-9a-f]{6,}|pid \d+|(?<=ATTEMPT-)[0-9a-f]{6}", "…", found))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_sees_the_same_in_a_warm_rank_as_in_a_cold_one(
    name: str, calm_node: ControlledNode, tmp_path: Path
) -> None:
    warm = ended(calm_node, SCRIPTS[name], tmp_path / "warm")
    cold = ended(calm_node, SCRIPTS[name], tmp_path / "warm", python=sys.executable)
    differences = {key: (warm[key], cold[key]) for key in warm if warm[key] != cold[key]}
    assert not differences
    assert warm["stdout"] or warm["stderr"] or warm["left"] or name in ("exit code", "exit by nothing")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.extended] * (name in AS_OF_A_SCRIPT)) for name in MODULES]
)
def test_a_module_sees_the_same_in_a_warm_rank_as_in_a_cold_one(
    name: str, calm_node: ControlledNode, tmp_path: Path
) -> None:
    task = {"script": "", "module": "pkg.train"}
    warm = ended(calm_node, MODULES[name], tmp_path / "warm", **task)
    cold = ended(calm_node, MODULES[name], tmp_path / "warm", **task, python=sys.executable)
    differences = {key: (warm[key], cold[key]) for key in warm if warm[key] != cold[key]}
    assert not differences
    assert warm["stdout"] or warm["stderr"] or warm["left"] or name == "exit code"
    assert name != "findings" or any("helped __main__ pkg pkg.train True True" in line for line in warm["stdout"])


def test_a_command_runs_as_every_rank_with_its_variables(calm_node: ControlledNode, tmp_path: Path) -> None:
    (tmp_path / "run.sh").parent.mkdir(exist_ok=True)
    (tmp_path / "run.sh").write_text('#!/bin/sh\necho "$0" "$1" "$2" rank "$RANK"\n')
    task = {"script": "", "command": ["./run.sh", "at-${RANK}"], "arguments": ["a b"], "distributed": True}
    found = ended(calm_node, "", tmp_path, **task)
    assert found["code"] == 0 and "./run.sh at-0 a b rank 0" in found["stdout"][0], found


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [("nothing to run", 126, "its first line names no interpreter"), ("#!/nowhere/sh\n", 127, "its first line names")],
)
def test_a_command_that_cannot_be_started_says_why(
    text: str, code: int, words: str, calm_node: ControlledNode, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(text)
    found = ended(calm_node, "", tmp_path, script="", command=["./run.sh"])
    assert found["code"] == code and any(words in line for line in found["stderr"]), found

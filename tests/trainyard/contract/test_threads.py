"""Threads that read a type for the first time at once each get what it says."""

from __future__ import annotations

import subprocess
import sys

# Types that nothing has read yet, each with four levels: while a thread works out the inner ones, others use the outer.
SCRIPT = """
import sys, threading
from trainyard.contract.base import WireStruct, convert

sys.setswitchinterval(1e-6)

def made(name, depth):
    fields = {f"before{i}": "int | None" for i in range(5)}
    if depth:
        globals()[f"{name}{depth}"] = made(f"{name}{depth}", depth - 1)
        fields["inner"] = f"list[{name}{depth}]"
    fields |= {f"behind{i}": "str | None" for i in range(5)}
    return type(WireStruct)(name, (WireStruct,), {"__annotations__": fields, "__module__": __name__})

def value(depth):
    inner = {"inner": [value(depth - 1)]} if depth else {}
    return {f"before{i}": 1 for i in range(5)} | inner | {f"behind{i}": "a" for i in range(5)}

document, found = value(3), []
for number in range(100):
    kind, together = made(f"Kind{number}_", 3), threading.Barrier(4)
    def read():
        together.wait()
        found.append(convert(document, kind).inner[0].inner[0].behind4)
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(found == ["a"] * 400)
"""


def test_a_type_is_read_by_many_threads_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr

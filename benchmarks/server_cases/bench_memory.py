"""What the server's processes weigh, and that none of them carries torch; the limit is a bare Django import."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks import goals
from benchmarks.stack import running
from benchmarks.table import Row

BARE = "import django.core.handlers.asgi, psutil; print(psutil.Process().memory_full_info().pss)"


def tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def rows() -> list[Row]:
    bare = int(subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True).stdout)
    found = []
    with running() as stack:
        for _ in range(50):
            for path in ("/runs", "/nodes", "/clusters"):
                stack.get(path)
            stack.http.get("/")
        for name in ("web", "control", "ingest"):
            processes = tree(stack.process(name))
            pss = sum(process.memory_full_info().pss for process in processes)
            maps = (region.path for process in processes for region in process.memory_maps())
            torch = "maps torch" if any("libtorch" in path for path in maps) else "no torch"
            goal = goals.WEB_MEMORY if name == "web" else None
            what = f"memory of the {name} process, PSS"
            found.append(Row(what, pss / 2**20, "MiB", bare / 2**20, "a bare import of Django", goal=goal, note=torch))
    return found

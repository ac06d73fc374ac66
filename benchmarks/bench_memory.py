"""What the server's processes weigh, and that none of them carries torch; the limit is a bare Django import."""

from __future__ import annotations

import subprocess
import sys

import psutil

from benchmarks.stack import machine, running

BARE = "import django.core.handlers.asgi, psutil; print(psutil.Process().memory_full_info().pss)"


def tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def main() -> None:
    bare = int(subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True).stdout)
    print(f"memory of the server's processes, PSS ({machine()})")
    print(f"  {'a bare Django import':22} {bare / 2**20:6.0f} MiB")
    with running() as stack:
        for _ in range(50):
            for path in ("/runs", "/nodes", "/clusters"):
                stack.get(path)
            stack.http.get("/")
        for name in ("web", "control", "ingest"):
            processes = tree(stack.process(name))
            pss = sum(process.memory_full_info().pss for process in processes)
            maps = (region.path for process in processes for region in process.memory_maps())
            torch = "torch" if any("libtorch" in path for path in maps) else "no torch"
            print(f"  {name:22} {pss / 2**20:6.0f} MiB   {pss / bare:.1f} times bare   {torch}")
    print("  (goal: web under 150 MB, without torch)")


if __name__ == "__main__":
    main()

"""Stands in for the look into a dataset where a test wants it to go wrong: the location says how."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    asked = json.loads(sys.stdin.read())
    how = asked["data"]["location"]
    if how == "/see":
        priority = os.getpriority(os.PRIO_PROCESS, 0)
        names = sorted(name for name in os.environ if name.startswith(("TRAINYARD_", "SECRET")))
        adjusted = int(Path("/proc/self/oom_score_adj").read_text())
        seen = {"priority": priority, "names": names, "home": os.environ["HOME"], "adjusted": adjusted}
        seen["processes"] = sum(one.name.isdigit() for one in Path("/proc").iterdir())
        with socket.socket(socket.AF_UNIX) as server:  # as multiprocessing and Ray do below TMPDIR
            seen["bound"] = server.bind(f"{os.environ['TMPDIR']}/{'s' * 60}")
        seen["attempt"] = os.environ.get("TRAINYARD_ATTEMPT")
        print(json.dumps({"facts": {"kind": "text", "target": asked["recipe"], "text": json.dumps(seen)}}))
    elif how == "/refuse":
        print(json.dumps({"problem": "Line 3 of /refuse is no JSON."}))
    elif how == "/talk":
        while True:
            sys.stdout.write("x" * 65_536)
    elif how == "/sleep":
        time.sleep(600)
    elif how == "/die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "/raise":
        raise RuntimeError("the cellar is flooded")
    elif how == "/mumble":
        print("no JSON")


if __name__ == "__main__":
    main()

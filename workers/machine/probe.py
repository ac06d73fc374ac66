"""``python -m workers.machine.probe SERVER VALKEY FOLDER``: whether this machine could be a node. Prints one line of
JSON. VALKEY is ``host:port`` or the path of a socket."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from trainyard import __version__
from trainyard.rest.http_clients import server_client

LIMIT_S = 10.0


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps({"host": socket.gethostname(), "version": __version__, "problems": problems_of(*words)}))
    return 0


def problems_of(server: str, valkey: str, folder: str) -> list[str]:
    """Return what a node here would not reach, each with its name and a colon in front."""
    checks = {
        "server": lambda: _reach_server(server),
        "Valkey": lambda: _reach_valkey(valkey),
        "folder": lambda: _write_in(Path(folder)),
    }
    return [f"{name}: {problem}" for name, check in checks.items() if (problem := _problem_of(check))]


def _problem_of(check: Callable[[], None]) -> str:
    try:
        check()
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _reach_server(server: str) -> None:
    # Any answer is one: whom to trust the node learns with its join token.
    with server_client(timeout=LIMIT_S, verify=False) as client:
        client.get(f"{server.rstrip('/')}/api/v1/health")


def _reach_valkey(valkey: str) -> None:
    if valkey.startswith("/"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(LIMIT_S)
            probe.connect(valkey)
        return
    host, _, port = valkey.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT_S):
        pass


def _write_in(folder: Path) -> None:
    mark = folder / f".probe-{socket.gethostname()}-{os.getpid()}"
    mark.touch()
    mark.unlink()


if __name__ == "__main__":
    sys.exit(main())

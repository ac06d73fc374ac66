"""``python -m workers.machine.probe SERVER VALKEY FOLDER [FINGERPRINT]``: whether this machine could be a node. Prints
one line of JSON. VALKEY is ``host:port`` or the path of a socket, FINGERPRINT that of the authority in join tokens."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import httpx

from trainyard import __version__
from trainyard.rest.http_clients import server_client
from trainyard.rest.trust import sentence_of
from workers.transport.node_config import CannotStart
from workers.transport.trust import Trust

LIMIT_S = 10.0


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps({"host": socket.gethostname(), "version": __version__, "problems": problems_of(*words)}))
    return 0


def problems_of(server: str, valkey: str, folder: str, fingerprint: str = "") -> list[str]:
    """Return what a node here would not reach, each with its name and a colon in front."""
    checks = {
        "server": lambda: _reach_server(server, fingerprint),
        "Valkey": lambda: _reach_valkey(valkey),
        "folder": lambda: _write_in(Path(folder)),
    }
    return [f"{name}: {problem}" for name, check in checks.items() if (problem := _problem_of(check))]


def _problem_of(check: Callable[[], None]) -> str:
    try:
        check()
    except (CannotStart, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _reach_server(server: str, fingerprint: str) -> None:
    server = server.rstrip("/")
    with tempfile.TemporaryDirectory() as home:
        trust = Trust(Path(home))
        trust.take_given()
        if fingerprint:
            trust.meet(server, fingerprint)
        try:
            with server_client(timeout=LIMIT_S, verify=trust.verify()) as client:
                client.get(f"{server}/api/v1/health")  # any answer is one
        except httpx.TransportError as error:
            raise CannotStart(sentence_of(error, server) or str(error)) from error


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

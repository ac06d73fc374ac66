"""The command of each process. A cluster runs the same ones on many machines."""

import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path

from dashboard.home import authorities_file, serves_tls, valkey_password
from dashboard.up.append_only import mend
from dashboard.up.children import Program
from dashboard.up.valkey import server_command
from trainyard.contract.calls.joining import REMOVED_EXIT_CODE
from trainyard.rest.trust import VARIABLE

PYTHON = [sys.executable, "-m"]
SITE: dict[str, str | None] = {"DJANGO_SETTINGS_MODULE": "dashboard.settings", "PYTHONUNBUFFERED": "1"}
# A node is handed nothing of the server's. With Django's settings named, Celery would start Django there, too.
NODE: dict[str, str | None] = {
    "PYTHONUNBUFFERED": "1",
    **dict.fromkeys(("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL", "SECRET_KEY")),
}


def valkey(home: Path, unix_socket: Path) -> Program:
    # SIGTERM, so that it writes its file to the end when we are gone.
    password = valkey_password(home) if serves_tls(home) else ""
    command = server_command(home / "valkey", unix_socket, password=password)
    return Program("valkey", command, death_signal=signal.SIGTERM, prepare=partial(mend, home / "valkey"))


def valkey_gate(listener: socket.socket) -> Program:
    command = [*PYTHON, "dashboard.up.valkey_gate", str(listener.fileno())]
    return Program("valkey-tls", command, SITE, descriptors=(listener.fileno(),))


def web(listener: socket.socket, apps: socket.socket | None = None, *, is_tls: bool = False) -> Program:
    descriptors = (listener.fileno(), *([apps.fileno()] if apps is not None else []))
    command = [*PYTHON, "dashboard.http.serving", *map(str, descriptors), *(["--tls"] if is_tls else [])]
    return Program("web", command, SITE, descriptors=descriptors)


def control() -> Program:
    words = ["--queues", "control", "--pool", "threads", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [*PYTHON, "celery", "-A", "dashboard.celery", "--quiet", "worker", *words, "-n", "control@%h"]
    return Program("control", [*command, "--loglevel", "WARNING"], SITE)


def ingest(shard: int = 0) -> Program:
    name = f"ingest-{shard}" if shard else "ingest"
    return Program(name, [*PYTHON, "django", "ingest", "--skip-checks", "--shard", str(shard)], SITE)


def node(home: Path, name: str, server: str, secret: str | None, share: dict[str, str]) -> Program:
    """``share`` is the environment with the node's part of this machine."""
    command = [*PYTHON, "workers.node", "--name", name, "--home", str(home), "--server", server]
    # All nodes of this machine see one folder, so that a run goes on wherever it is placed next.
    checkpoints = os.environ.get("TRAINYARD_CHECKPOINTS") or str(home / "checkpoints")
    authorities = authorities_file(home)
    trust = {VARIABLE: str(authorities)} if authorities is not None else {}
    # The token is no argument: those stand in the list of processes.
    environment = {**NODE, **share, **trust, "TRAINYARD_CHECKPOINTS": checkpoints, "TRAINYARD_JOIN": secret}
    # Its supervisors end with the same lifeline, and it stays to pass on their last reports.
    return Program(name, command, environment, death_signal=0, stops_by_lifeline=True, final_code=REMOVED_EXIT_CODE)

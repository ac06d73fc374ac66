"""``python -m workers.node``: join once, then serve until a signal to stop."""

import argparse
import faulthandler
import logging
import os
import re
import signal
import socket
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from celery.exceptions import SecurityWarning
from celery.signals import worker_shutting_down
from celery.worker import state

from trainyard import __version__, lifeline
from trainyard.contract.calls import REMOVED_EXIT_CODE, JoinRequest, unpinned
from trainyard.contract.seals import ATTACH, INSPECT, NUDGE
from trainyard.rest.http_clients import spare_loopback
from workers.data_access import CLOSED
from workers.machine.inventory import take_inventory
from workers.machine.safe_output import SafeOutput
from workers.node.brought import GRACE_S, NOTICE, Departure, sweep, token_for, token_in
from workers.node.server_client import JoinRefused, join
from workers.node.worker import NodeWorker
from workers.replicas.folders import memory_path
from workers.sandbox.node import CannotIsolate, Isolation, find_isolation
from workers.transport import node_config
from workers.transport.commands import CommandReader, make_app, register
from workers.transport.trust import Trust, UnknownAuthority

NUM_COMMAND_THREADS = 4
LAST_REPORTS_S = 4.0


def main(argv: list[str] | None = None) -> int:
    # With it Celery would look for a Django project, and a node has none.
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    configure_logs()
    spare_loopback(os.environ)
    # From here on: joining may wait for a server that does not answer yet.
    is_tethered = lifeline.watch(grace_s=LAST_REPORTS_S + 1)
    options = parse(argv)
    name = options.name or host_name()
    attempt = options.for_attempt
    home = node_config.node_home(options.home, f"{attempt}-{options.machine}" if attempt else name)
    try:
        if options.join_file is not None:
            options.join = token_in(options.join_file)
        elif attempt:
            options.join = token_for(options.join, options.machine)
        node_config.make_home(home)
        Trust(home).take_given()
        config = find_config(options, name, home)
        node_config.check_redis_url(config.redis_url)
        address = options.address or address_towards(config.server)
        isolation = find_isolation(options.home, node_config.checkpoints_root(home), memory_path(home, os.environ))
    except (node_config.CannotStart, CannotIsolate) as error:
        print(error, file=sys.stderr)
        return 1
    os.environ[CLOSED] = os.pathsep.join(isolation.hidden)
    return serve(config, home, address, isolation, options, is_tethered=is_tethered)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainyard node", description="Run this machine as a node of a cluster.")
    parser.add_argument(
        "--join",
        metavar="TOKEN",
        default=os.environ.pop("TRAINYARD_JOIN", None),
        help="the one-time join token; needed at the first start only; default: $TRAINYARD_JOIN",
    )
    parser.add_argument("--join-file", type=Path, metavar="PATH", help="a file that holds the join token")
    parser.add_argument(
        "--for-attempt",
        type=attempt_id,
        default="",
        metavar="ATTEMPT",
        help="serve this attempt alone, and leave with it; the token must be bound to it",
    )
    parser.add_argument(
        "--machine",
        type=int,
        default=int(os.environ.get("SLURM_PROCID") or 0),
        metavar="N",
        help="with --for-attempt, which of its machines this is, from 0: it takes the token at that place; default: "
        "$SLURM_PROCID",
    )
    parser.add_argument(
        "--grace",
        type=positive,
        default=GRACE_S,
        metavar="SECONDS",
        help="with --for-attempt, how long after SIGTERM its ranks may save; default: %(default)s",
    )
    parser.add_argument("--server", metavar="URL", help="the Trainyard server, as http://host:port")
    parser.add_argument(
        "--tls", action="store_true", help="at joining: reach Valkey with TLS, also where its socket is on this machine"
    )
    parser.add_argument("--name", type=node_name, help="this node's name in the cluster; default: the host name")
    parser.add_argument(
        "--home",
        type=Path,
        default=Path(os.environ.get("TRAINYARD_HOME", ".trainyard")),
        help="where the node keeps its state; default: $TRAINYARD_HOME, else .trainyard",
    )
    parser.add_argument("--slots", type=positive, help="ranks that may run here at once; default: one per GPU or core")
    parser.add_argument("--address", help="the address at which other nodes reach this one; default: found out")
    return parser.parse_args(argv)


def find_config(options: argparse.Namespace, name: str, home: Path) -> node_config.NodeConfig:
    """Join where a token is given; a token that was used already leads to what is stored, at the server's address that
    is given now. Raises CannotStart."""
    stored = node_config.load_config(home)
    if stored is not None and not options.join:
        return moved_to(options.server or "", stored, home)
    try:
        return join_cluster(options, name, home)
    except (JoinRefused, UnknownAuthority):
        if stored is None:
            raise
        return moved_to(options.server or "", stored, home)


def moved_to(server: str, stored: node_config.NodeConfig, home: Path) -> node_config.NodeConfig:
    """Return what is stored with the server's address of now, which is stored too."""
    server = server.rstrip("/")
    if not server or server == stored.server:
        return stored
    config = replace(stored, server=server)
    node_config.store_config(home, config)
    return config


def join_cluster(options: argparse.Namespace, name: str, home: Path) -> node_config.NodeConfig:
    """Join with the token and remember the answer. Raises CannotStart."""
    if not options.join or not options.server:
        raise node_config.CannotStart(
            f"The node {name} has not joined a cluster yet; start it once with --join TOKEN --server URL, "
            'as the page\'s "Add node" says.'
        )
    server, trust, token = options.server.rstrip("/"), Trust(home), unpinned(options.join)
    if token.fingerprint:
        trust.meet(server, token.fingerprint)
    body = JoinRequest(
        token=token.secret,
        name=name,
        address=options.address or address_towards(server),
        slots=options.slots,
        inventory=take_inventory(home, options.slots),
        version=__version__,
        attempt=options.for_attempt,
    )
    config = join(server, body, trust, wants_tls=options.tls)
    node_config.store_config(home, config)
    return config


def serve(
    config: node_config.NodeConfig,
    home: Path,
    address: str,
    isolation: Isolation,
    options: argparse.Namespace,
    *,
    is_tethered: bool,
) -> int:
    """Take commands in the main thread, until SIGTERM, Ctrl-C or the lifeline's end. All else runs in other threads.

    Supervisors go on; under ``up`` they hold the lifeline too and end by themselves. A node ``for_attempt`` takes them
    with it.
    """
    attempt, grace_s = options.for_attempt, options.grace
    node = NodeWorker(config, home, address, isolation, options.slots, sends_all=bool(attempt))
    departure = Departure(node, attempt, home, grace_s) if attempt else None
    if departure is not None:
        signal.signal(NOTICE, departure.take_notice)
        departure.start()
        threading.Thread(target=sweep, args=(home,), name="leftovers", daemon=True).start()
    commands = CommandReader(config.id, config.key, node.clock.now)
    app = make_app(config.redis_url, config.name, commands.gate())
    register(app, commands, NUDGE, node.nudge)
    register(app, commands, INSPECT, node.inspect)
    register(app, commands, ATTACH, node.attach)
    node.start(end_as_removed)
    worker_shutting_down.connect(lambda **_: node.leave(), weak=False)
    # It warns root of pickled messages; we accept JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    worker = app.Worker(
        hostname=f"{config.name}@trainyard",
        pool="threads",
        concurrency=NUM_COMMAND_THREADS,
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    try:
        worker.start()
    finally:
        if departure is not None:
            departure.finish()
        if node.is_removed:  # no run may have its ranks here any more
            node.leave_for_good(grace_s)
        if is_tethered:  # our supervisors are ending with us; their last reports go through us if they cannot
            node.wait_for_supervisors(LAST_REPORTS_S)
        node.stop()
    if node.is_removed:
        print(
            f"The server {config.server} does not know the node {config.name} any more: it was removed, or another "
            f"machine has joined under its name. Start it with a new --join token, or not again.",
            file=sys.__stderr__,  # Celery makes log lines of what goes to the other
        )
        return REMOVED_EXIT_CODE
    return int(worker.exitcode or 0)


def end_as_removed() -> None:
    """End the main thread's worker. A signal wakes it where it waits, once it has a handler; before, it would kill."""
    state.should_stop = REMOVED_EXIT_CODE  # type: ignore[assignment]
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        os.kill(os.getpid(), signal.SIGTERM)


def address_towards(server: str) -> str:
    """Return the address of this machine's interface that leads to the server. Nothing is sent."""
    parts = urlsplit(server)
    try:
        port = parts.port or 80
        family, kind, protocol, _, target = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise node_config.CannotStart(f"The server {server} cannot be reached: {error}.") from error


def host_name() -> str:
    """Return the host's name as a node may be called."""
    return re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().split(".")[0].lower()).strip("-")[:60] or "node"


def node_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", text):
        raise argparse.ArgumentTypeError("letters, digits, - and _ only, at most 60")
    return text


def attempt_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]{0,40}", text):
        raise argparse.ArgumentTypeError("an attempt's id: letters and digits only")
    return text


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number above 0")
    return int(text)


def configure_logs() -> None:
    faulthandler.enable(2)  # a process that a fault of native code ends says where it was
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(SafeOutput(2)),  # type: ignore[arg-type]  # it prints, which is all that is asked
    )

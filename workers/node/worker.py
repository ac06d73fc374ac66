"""The node worker: takes orders, gets supervisors for them, and reports every second how they and the machine are."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import redis
import structlog

from trainyard import __version__
from trainyard.contract.base import encode
from trainyard.contract.desired import Nudge
from trainyard.contract.inspections import Inspect, Question
from trainyard.contract.limits import STREAM_LIMIT_ENTRIES
from trainyard.contract.locks import unlock
from trainyard.contract.machines import HealthSample
from trainyard.contract.node_status import NodeStatus
from trainyard.contract.seals import down_key, frames_scope, mac, node_scope, seal, session_key, stream_key, up_key
from trainyard.contract.session_frames import Frame, FrameLock
from trainyard.contract.sessions import Attach, FrameKind, SessionEnd, SessionOrder
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.temporary import take_lost_names
from workers.machine.gpus import fault_reader
from workers.machine.inventory import HealthReader, take_inventory
from workers.node.attempts import Attempts
from workers.node.finished import FinishedAttempts
from workers.node.inspection.inspector import Inspector
from workers.node.memory import NodeMemory
from workers.node.preflight.self_check import SelfChecker
from workers.node.preparation.orders import Environments, Standby
from workers.node.server_client import ServerClient, ServerClock
from workers.node.zygote_keeper import ZygoteKeeper
from workers.replicas.folders import run_folders
from workers.sandbox.node import Isolation
from workers.transport.control_socket import Request, send_request, socket_path
from workers.transport.desired_reader import DesiredReader, connect
from workers.transport.node_config import NodeConfig, checkpoints_root, store_config
from workers.transport.trust import Trust

log = structlog.get_logger(__name__)


# Checkpoints of runs that were deleted go from the disk: the server says which those are, nobody guesses.

MAX_ASKED = 500


def sweep(root: Path, server: ServerClient) -> list[str]:
    """Delete the folders below ``root`` whose runs the server has deleted, and return their names.

    A run that the server merely does not know is left alone: the disk may be another server's too. Raises
    httpx.HTTPError and OSError.
    """
    here, swept = run_folders(root), list[str]()
    for start in range(0, len(here), MAX_ASKED):
        asked = here[start : start + MAX_ASKED]
        for run in sorted(set(asked) & server.gone_runs(asked)):
            remove_tree(root / run)  # another node that sees this disk may be at the same
            log.info("checkpoints.swept", run=run)
            swept.append(run)
    return swept


HEALTH_SHARD = 0

STATUS_EVERY_S = 1.0
DESIRED_EVERY_S = 1.0
HEALTH_EVERY_S = 2.0
WATCH_EVERY_S = 0.25
SWEEP_EVERY_S = 60.0
CHECK_EVERY_S = 1.0
LONGEST_PAUSE_S = 5.0


class NodeWorker:
    """The node worker, but for the main thread, which takes commands (``nudge``, ``inspect``) from Celery."""

    def __init__(
        self,
        config: NodeConfig,
        home: Path,
        address: str,
        isolation: Isolation,
        slots: int | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        sends_all: bool = False,
    ) -> None:
        """``sends_all``: what an attempt leaves in its working folder is sent, too, since the node does not stay."""
        self._config, self._address = config, address
        self._client = connect(config.redis_url)
        self._inventory = take_inventory(home, slots, labels)
        self._inventory.isolation, self._inventory.sandbox = isolation.mechanism.value, isolation.described()
        self._environments = Environments(home, isolation)
        self._inventory.tools = self._environments.tools.capabilities()
        self._health = HealthReader(home)
        self._latest_health = self._health.sample()
        self._zygote = ZygoteKeeper(int(os.environ.get("TRAINYARD_LIFELINE") or -1))
        self.clock = ServerClock()
        self._server = server = ServerClient(
            config, lambda url: store_config(home, replace(config, server=url)), self.clock, Trust(home)
        )
        self._memory = NodeMemory.open(home, os.environ)
        checkpoints = checkpoints_root(home)
        self._sweep = partial(sweep, checkpoints, server)
        self._attempts = Attempts(
            config,
            home,
            address=address,
            zygote=self._zygote,
            source=server,
            finished=FinishedAttempts(config, self._client, server, sends_all=sends_all),
            isolation=isolation,
            memory=self._memory,
        )
        self._describe_memory(home)
        self._standby = Standby(home / "cache", server, lambda: self._zygote.is_ready, isolation)
        self._inspector = Inspector(home, server, isolation)
        self._checker = SelfChecker(
            self._client, node=config.id, address=address, home=home, checkpoints=checkpoints, gpus=fault_reader()
        )
        self._over = threading.Event()
        self._nudged = threading.Event()
        self._is_leaving = False
        self.is_removed = False
        self._doubted = threading.Event()  # whether the server knows us
        self._status_due = threading.Event()
        self._reader = DesiredReader(config.key, config.id)
        self._has_read = False  # any desired state

    def _describe_memory(self, home: Path) -> None:
        folder = self._memory.folder
        self._inventory.memory_problem = self._memory.problem[:200] or None
        self._inventory.memory_limit_bytes = folder.limit_bytes if folder is not None else None
        self._inventory.memory_port = self._memory.receive(home, self._address, self._attempts.known)

    def start(self, removed: Callable[[], None]) -> None:
        """``removed`` is called, in another thread, once the server does not know this node any more."""
        take_lost_names()
        self._attempts.adopt()
        threading.Thread(target=self._zygote.keep, name="zygote", daemon=True).start()
        self._loop("health", HEALTH_EVERY_S, self._sample_health)
        self._loop("status", STATUS_EVERY_S, self._send_status, self._status_due)
        self._loop("desired", DESIRED_EVERY_S, self._read_desired, self._nudged)
        self._loop("watch", WATCH_EVERY_S, self._watch)
        self._loop("sweep", SWEEP_EVERY_S, self._sweep)
        self._loop("trust", SWEEP_EVERY_S, self._server.follow_authorities)
        self._loop("known", SWEEP_EVERY_S, partial(self._look_if_known, removed), self._doubted)
        self._loop("memory", SWEEP_EVERY_S, self._memory.remove_abandoned)
        self._loop("environments", SWEEP_EVERY_S, self._environments.make_room)
        self._loop("standby", STATUS_EVERY_S, self._standby.prepare)
        self._checker.start()
        self._loop("preflight", CHECK_EVERY_S, self._checker.step, self._checker.sooner)

    def leave(self) -> None:
        """Report at once that this node worker is being stopped, so that nothing more is placed here. May be called by
        a signal's handler: another thread sends the status."""
        self._is_leaving = True
        self._status_due.set()

    def stop(self) -> None:
        self._over.set()
        self._status_due.set()
        self._nudged.set()
        self._inspector.stop()
        self._checker.stop()
        self._zygote.stop()
        if not self._attempts.living():
            self._memory.close()

    def wait_for_supervisors(self, limit_s: float) -> None:
        """Return when no supervisor lives here any more, or after ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while self._attempts.living() and time.monotonic() < deadline:
            time.sleep(0.05)

    def leave_for_good(self, limit_s: float) -> None:
        """End all ranks, and return once they have ended, or after ``limit_s``."""
        self.end_ranks()
        deadline = time.monotonic() + limit_s
        while any(not one.is_ended() for one in self._attempts.living()) and time.monotonic() < deadline:
            time.sleep(0.05)

    def is_done_with(self, attempt: str) -> bool:
        return self._attempts.is_done_with(attempt)

    def end_ranks(self) -> None:
        self._attempts.end_all()

    # Commands: hints that control repeats, most of them in the down document.

    def nudge(self, command: Nudge) -> None:
        self._attempts.begin(command.attempts)
        self._nudged.set()

    def inspect(self, command: Inspect) -> None:
        self._inspector.take(unlock(self._config.key, node_scope("question", self._config.id), command, Question))

    def attach(self, command: Attach) -> None:
        """Pass the wish for a session on to the supervisor of its attempt, or report why there is none."""
        order = unlock(self._config.key, node_scope("session", self._config.id), command, SessionOrder)
        if problem := self._start_session(order):
            log.info("session.refused", session=order.session, attempt=order.attempt, problem=problem)
            end = encode(SessionEnd(code="refused", sentence=problem)).encode()
            data = FrameLock(self._config.key, order.session, "up").lock(Frame(0, 1, FrameKind.ENDED, end))
            self._client.xadd(session_key(self._config.id, order.session, "up"), {"d": data}, id="1-0", nomkstream=True)

    def _start_session(self, order: SessionOrder) -> str:
        """Have the supervisor start the session; return why it does not, empty where it does."""
        folder = self._attempts.folder_of(order.attempt)
        known = folder.order() if folder is not None else None
        if folder is None or known is None or (known.run, known.fence) != (order.run, order.fence):
            return f"Node {self._config.name} has no such attempt."
        answer = send_request(socket_path(folder.path), Request(do="attach", fence=order.fence, session=order))
        if answer is None:
            return f"The supervisor of the attempt on node {self._config.name} does not answer."
        return answer.error

    def _sample_health(self) -> None:
        """Sample the machine, and send it to the metric store as an entry of the stream without a run, unless the
        stream is full: old samples are worth nothing. Raises redis.RedisError."""
        self._latest_health = self._health.sample()
        stream = stream_key(HEALTH_SHARD)
        if self._client.xlen(stream) < STREAM_LIMIT_ENTRIES:
            data = encode(HealthSample(at=time.time(), **msgspec.structs.asdict(self._latest_health))).encode()
            seal = mac(self._config.key, frames_scope(self._config.id, "", 0), data)
            self._client.xadd(stream, {"n": self._config.id, "r": "", "a": "", "f": 0, "d": data, "m": seal})

    def _watch(self) -> None:
        if self._attempts.watch():
            self._status_due.set()

    def _look_if_known(self, removed: Callable[[], None]) -> None:
        if not self.is_removed and not self._server.is_known():
            self.is_removed = True
            removed()

    def _send_status(self) -> None:
        key = up_key(self._config.id)
        self._inventory.is_warm, self._inventory.kept = self._zygote.is_ready, self._environments.kept
        status = NodeStatus(
            at=time.time(),
            node=self._config.id,
            name=self._config.name,
            version=__version__,
            address=self._address,
            pid=os.getpid(),
            inventory=self._inventory,
            health=self._latest_health,
            attempts=self._attempts.listed(),
            troubles=self._attempts.troubles(),
            inspecting=self._inspector.questions(),
            self_check=self._checker.latest,
            memory=self._memory.status(),
            standby=self._standby.status(),
            is_leaving=self._is_leaving,
        )
        self._client.set(key, seal(self._config.key, key, status))

    def _read_desired(self) -> None:
        text: Any = self._client.get(down_key(self._config.id))
        desired = None if text is None else self._reader.read(text)
        if desired is None:
            return
        if self._has_read:  # the first document may have been there for long
            self.clock.set(desired.at)
        self._has_read = True
        self._server.offer_address(desired.server)
        if desired.probe is not None:
            self._checker.take(desired.probe)
        self._attempts.reconcile(desired.attempts)
        self._attempts.settle(desired.attempts, desired.at)
        self._memory.free(desired.free_memory)
        self._standby.take(desired.standby)

    def _loop(
        self, name: str, every_s: float, step: Callable[[], object], sooner: threading.Event | None = None
    ) -> None:
        """Run ``step`` in a thread of its own, every so often and when ``sooner`` is set; trouble makes it rarer."""

        def run() -> None:
            pause_s = every_s
            while not self._over.is_set():
                if sooner is not None:
                    sooner.clear()
                try:
                    step()
                    if pause_s != every_s:
                        log.info("node.recovered", loop=name)
                    pause_s = every_s
                except (redis.RedisError, httpx.HTTPError, OSError) as error:
                    if pause_s == every_s:  # once per trouble, not once per try
                        log.warning("node.trouble", loop=name, error=str(error))
                        if isinstance(error, redis.AuthenticationError):
                            self._doubted.set()
                    pause_s = max(every_s, min(2 * pause_s, LONGEST_PAUSE_S))
                except Exception:  # a bug in one loop must not silence the node for ever; the log says where it is
                    log.exception("node.bug", loop=name)
                    pause_s = LONGEST_PAUSE_S
                (sooner or self._over).wait(pause_s)

        threading.Thread(target=run, name=name, daemon=True).start()

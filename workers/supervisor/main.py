"""The life of a supervisor: lock, start, watch, end. Ranks are forked before it has threads."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import structlog

from trainyard.contract.base import encode
from trainyard.contract.orders import Order
from trainyard.contract.reports import Reason
from trainyard.contract.sessions import SessionOrder
from trainyard.contract.statuses import Phase
from trainyard.failures.ranks import ending_sentence
from workers.attempt.documents import StartRequest
from workers.attempt.folder import AttemptFolder, AttemptTaken
from workers.attempt.temporary import take_name
from workers.interactive.request import RelayRequest
from workers.machine.processes import identify, kill_children, send
from workers.rank_process.run import RankPlan
from workers.sandbox.namespaces import inside_pid
from workers.sandbox.process import ROOT
from workers.supervisor.contact import Contact
from workers.supervisor.ending import Ending
from workers.supervisor.environment import CODE
from workers.supervisor.ranks.confinement import Confinement
from workers.supervisor.ranks.state import RankState
from workers.supervisor.records.collector import Collector
from workers.supervisor.records.masked_output import MaskedOutput, opened_secrets
from workers.supervisor.records.rule_watch import RuleWatch
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.reports import Reporting
from workers.supervisor.starting import Starting
from workers.supervisor.watching import Watching
from workers.transport.control_socket import Request, SupervisorAnswer, listen, serve_one, socket_path
from workers.transport.desired_reader import connect
from workers.transport.node_config import load_config

log = structlog.get_logger(__name__)

MAX_SESSIONS = 16  # at a time, beside the ranks of one attempt on this node
POLL_EVERY_S = 0.1
SHIPPING_LIMIT_S = 600.0
INTERRUPTED_SHIPPING_LIMIT_S = 1.5


def supervise(request: StartRequest, *, notify: int, lifeline: int) -> int:
    """Run the requested attempt to its end. ``notify`` gets one line once the lock is held."""
    folder = AttemptFolder(Path(request.folder))
    try:
        lock = folder.take_lock()
    except AttemptTaken as taken:
        os.write(notify, f"{taken}\n".encode())
        return 1
    with lock:
        order = folder.order()
        assert order is not None
        confinement = Confinement(request.isolation, order, folder, request.address)
        confinement.fork_waiting(has_pipes=request.secrets is not None)  # before anything here knows a key
        supervisor = Supervisor(request, order, folder, lifeline, confinement)
        os.write(notify, b"locked\n")
        os.close(notify)
        try:
            supervisor.run()
        finally:
            supervisor.close()
    return 0


class Events:
    """Events for a supervisor: ends of children, signals, requests at its socket, the end of the node worker."""

    def __init__(self, folder: AttemptFolder, lifeline: int) -> None:
        self._folder, self._lifeline = folder, lifeline
        self.control = listen(socket_path(folder.path))
        self._wakeup, self._wake = socket.socketpair()
        for end in (self._wakeup, self._wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def wait(self) -> tuple[bool, bool]:
        """Wait for the next, at most POLL_EVERY_S. Returns whether there is a request, and whether the node worker has
        just ended."""
        readers: list[Any] = [self.control, self._wakeup, *([self._lifeline] if self._lifeline >= 0 else [])]
        ready, _, _ = select.select(readers, [], [], POLL_EVERY_S)
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                self._wakeup.recv(4096)
        has_ended = self._lifeline in ready
        if has_ended:
            self._lifeline = -1
        return self.control in ready, has_ended

    def close(self) -> None:
        self.control.close()
        socket_path(self._folder.path).unlink(missing_ok=True)


class Supervisor:
    """Reacts to what happens, ends the ranks where a cause wants it, and hands over from each part to the next."""

    def __init__(
        self, request: StartRequest, order: Order, folder: AttemptFolder, lifeline: int, confinement: Confinement
    ) -> None:
        config = load_config(Path(request.home))
        assert config is not None, "a node that has an order has joined"
        secrets = opened_secrets(request.secrets, config, order)
        self._rules = rules = RuleWatch(order.log_rules)
        client = connect(config.redis_url)
        self._order, self._folder = order, folder
        self._ending = Ending(order, folder)
        self._starting = Starting(request, order, folder, confinement, secrets)
        self._part: Starting | Watching = self._starting  # it takes in which children end
        self._contact = Contact(client, config.key, order)
        shipper = Shipper(client, config.key, order, folder.spool, self._contact)
        self._reporting = Reporting(self._starting, request.address, rules, self._contact, shipper)
        self._output = MaskedOutput(folder, order.first_rank, confinement.waiting.pipes, secrets)
        self._collector = Collector(order, folder, self._starting.ranks, [os.getpid(), os.getppid()], rules)
        self._sessions = Sessions(request.home)
        self._has_lost_init: bool | None = None  # unknown until we kill its namespaces
        self._new_lock: IO[bytes] | None = None  # of a folder that was made anew
        self._events = Events(folder, lifeline)
        signal.signal(signal.SIGTERM, lambda *_: self._end("interrupted"))

    def run(self) -> None:
        self._reporting.begin()
        if self._starting.environment is not None:
            self._collector.start()
        if self._wait_for_go():
            watching = self._start_ranks()
            if self._starting.environment is None:
                self._collector.start()
            self._reporting.publish()
            self._watch(watching)
        self._finish()

    def close(self) -> None:
        self._events.close()
        self._starting.confinement.close()

    def _wait_for_go(self) -> bool:
        """Prepare the environment and wait until the server says go. False when the end comes first."""
        starting, environment = self._starting, self._starting.environment
        while starting.go is None and self._ending.cause is None:
            if environment is not None and environment.step():
                if environment.problem is not None:
                    self._end(CODE)
                elif environment.is_ready:
                    self._reporting.phase = Phase.READY
                self._reporting.publish()
            if self._reporting.phase == Phase.READY:
                starting.go = self._contact.go
            self._wait_and_react()
        return self._ending.cause is None

    def _start_ranks(self) -> Watching:
        plans = self._starting.plan()
        self._sessions.know(plans)
        if self._starting.confinement.waiting.pipes:
            self._output.start()
        self._starting.start(plans)
        self._part = watching = Watching(self._starting)
        self._reporting.phase = Phase.RUNNING
        for pid, status in self._starting.early.items():
            self._take_exit(pid, status)
        self._record_processes()
        return watching

    def _watch(self, watching: Watching) -> None:
        while not watching.has_ended:
            self._wait_and_react()
            if self._reporting.phase == Phase.RUNNING:
                watching.pass_trace(self._contact.trace)
                if not self._folder.spool.is_dir():
                    # Made again for the report: without a folder the reason of the end would be lost.
                    self._folder.create(self._order)
                    self._new_lock = self._folder.take_lock()  # the first one went with its file
                    self._record_processes()
                    self._end("folder_deleted")
            if self._ending.cause is None and watching.has_failed:
                self._end("failed")
            if self._ending.is_over:
                self._ending.record_killed(watching.ranks)
                self._kill_all()
            if watching.step() or self._rules.has_news:
                self._reporting.publish()

    def _wait_and_react(self) -> None:
        """Wait for the next event and react to it, and to what the server wants."""
        has_request, is_cut = self._events.wait()
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0] != 0:
                self._take_exit(*reaped)
        if has_request:
            serve_one(self._events.control, self._answer)
        if is_cut:
            self._end("interrupted")
        if self._contact.cause is not None:
            self._end(self._contact.cause, self._contact.grace_s)
        if self._reporting.is_leased != self._reporting.latest.is_leased:
            self._reporting.publish()
        has_ranks = self._starting.go is not None
        if self._reporting.is_leased and self._contact.is_over(self._order.lease_s, has_ranks=has_ranks):
            self._end("lease_expired")

    def _take_exit(self, pid: int, status: int) -> None:
        if self._part.take_exit(pid, status):
            self._reporting.publish()

    def _answer(self, request: Request) -> SupervisorAnswer:
        """Serve the node worker: what it knows earlier than our own next look at the down document."""
        phase, starting = self._reporting.phase, self._starting
        if request.fence not in (None, self._order.fence):
            return SupervisorAnswer(error="another fence")
        if request.do == "go" and request.go is not None and starting.go is None and phase == Phase.READY:
            starting.go = request.go
        elif request.do == "attach" and request.session is not None:
            return SupervisorAnswer(phase=phase, error=self._sessions.begin(request.session, phase, starting.ranks))
        elif request.do == "stop":
            self._end(request.cause, request.grace_s)
        return SupervisorAnswer(phase=self._reporting.phase, pid=os.getpid())

    def _end(self, cause: str, grace_s: float | None = None) -> None:
        """Begin to end the ranks; the first cause is the reason. A shorter grace counts at any time."""
        if self._reporting.phase == Phase.ENDED or not self._ending.begin(cause, grace_s):
            return
        if self._reporting.phase == Phase.RUNNING:
            self._reporting.phase = Phase.STOPPING
        if self._ending.cause not in ("failed", "hang"):  # ranks that cannot go on end by themselves or are killed
            for pid in self._living():
                send(pid, signal.SIGTERM)
        self._reporting.publish()

    def _living(self) -> list[int]:
        return [rank.pid for rank in self._starting.ranks if rank.ended_at is None]

    def _record_processes(self) -> None:
        self._folder.record_processes([identify(pid) for pid in [os.getpid(), os.getppid(), *self._living()]])

    def _finish(self) -> None:
        """End the processes left of the tree, write the final report, and ship until the server has it all."""
        self._kill_all()
        take_name(self._folder.temporary, self._folder.attempt)
        if self._starting.environment is not None:  # sending what is left may take long
            self._starting.environment.close()
        self._output.finish()
        if self._collector.ident is not None:  # it was started
            self._collector.finish()
        self._reporting.phase = Phase.ENDED
        is_disk_full = self._reporting.release_reserve()
        limit_s = INTERRUPTED_SHIPPING_LIMIT_S if self._ending.cause == "interrupted" else SHIPPING_LIMIT_S
        self._reporting.finish(self._reason(is_disk_full), limit_s=limit_s)

    def _kill_all(self) -> None:
        """Kill the processes left of the tree. The first call looks whether the first process of the ranks' namespaces
        was killed, so that the kernel killed those that ran: some may have ended before, and some were asked to end
        while their deaths were not seen yet."""
        if self._has_lost_init is None:
            is_killed = any(rank.signal == signal.SIGKILL and not rank.was_ended for rank in self._starting.ranks)
            self._has_lost_init = is_killed and self._starting.confinement.has_lost_holder
        kill_children(self._take_exit)

    def _reason(self, is_disk_full: bool) -> Reason | None:
        node, environment = self._order.node_name, self._starting.environment
        if self._has_lost_init:
            return Reason(code="init_killed", sentence=ending_sentence("init_killed", node), evidence={"node": node})
        if self._ending.cause == CODE:
            return environment.problem if environment is not None else None
        return self._ending.reason(self._starting.ranks, self._contact.hang, is_disk_full=is_disk_full)


# Starts what people run beside the ranks: each session is a child of the supervisor, so that it ends with it.


class Sessions:
    """``home`` is the node's: a session reads there where its frames go, once its command is in its sandbox."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._plans: dict[int, RankPlan] = {}
        self._begun: set[str] = set()
        self._relays: list[subprocess.Popen[bytes]] = []

    def know(self, plans: Sequence[RankPlan]) -> None:
        self._plans = {plan.rank: plan for plan in plans}

    def begin(self, order: SessionOrder, phase: Phase, ranks: Sequence[RankState]) -> str:
        """Start a session. Return why that is not possible, empty where it is."""
        if order.session in self._begun:  # the command came twice
            return ""
        for rank in ranks:
            if (plan := self._plans.get(rank.rank)) is not None and plan.container is not None:
                rank.find_inner(plan.folder.pid_path(rank.rank))
        living = {rank.rank: rank for rank in ranks if rank.ended_at is None}
        self._relays = [relay for relay in self._relays if relay.poll() is None]
        if phase != Phase.RUNNING or order.rank not in living or order.rank not in self._plans:
            return f"Rank {order.rank} does not run here now."
        if self._plans[order.rank].container is not None and not living[order.rank].inner_pid:
            return f"The container of rank {order.rank} is starting. Try again in a moment."
        if len(self._relays) >= MAX_SESSIONS:
            return f"{MAX_SESSIONS} sessions are open beside the ranks of this node. End one of them first."
        self._begun.add(order.session)
        try:
            self._relays.append(self._start(order, living[order.rank].main_pid))
        except OSError as error:
            log.warning("session.unstarted", session=order.session, error=str(error))
            return f"The session cannot be started: {error.strerror or error}."
        log.info("session.started", session=order.session, rank=order.rank, relay=self._relays[-1].pid)
        return ""

    def _start(self, order: SessionOrder, pid: int) -> subprocess.Popen[bytes]:
        plan = self._plans[order.rank]
        request = RelayRequest(
            home=self._home,
            folder=str(plan.folder.code),
            order=order,
            environment={**plan.environment, "RANK_PID": str(inside_pid(pid))},
            sandbox=plan.sandbox,
            container=plan.container,
        )
        with tempfile.TemporaryFile() as file:  # a pipe could be full, and no session may keep the supervisor waiting
            file.write(encode(request).encode())
            file.seek(0)
            return subprocess.Popen(
                [sys.executable, "-m", "workers.interactive.relay"],
                cwd=ROOT, stdin=file, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

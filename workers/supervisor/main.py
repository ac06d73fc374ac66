"""The life of a supervisor: lock, environment, ready, go, watch, end. Ranks are forked before it has threads."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import IO, Any

import structlog

from trainyard.contract.orders import Go
from trainyard.contract.reports import AttemptReport, Reason
from trainyard.contract.statuses import Phase
from trainyard.failures.node_endings import ending_sentence
from trainyard.spooling.reader import last_sequences
from workers.attempt.folder import AttemptFolder, AttemptTaken
from workers.attempt.temporary import take_name
from workers.attempt.zygote_messages import StartRequest
from workers.machine.processes import identify, kill_children, send
from workers.rank_process.cold_rank import marks_files
from workers.rank_process.group_formation import can_watch
from workers.supervisor.contact import Contact
from workers.supervisor.container import build_for
from workers.supervisor.ending import Ending
from workers.supervisor.environment import CODE, EnvironmentBuild
from workers.supervisor.hangs.watch import HangWatch
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.confinement import Confinement
from workers.supervisor.ranks.launch import RankStart, close_all, plan_rank, reserve_ports, start_of_ranks
from workers.supervisor.ranks.port_check import is_listening
from workers.supervisor.ranks.replicas import replica_plan
from workers.supervisor.ranks.state import RankState
from workers.supervisor.ranks.stopping import ExitWatch
from workers.supervisor.records.collector import Collector
from workers.supervisor.records.masked_output import MaskedOutput, opened_secrets
from workers.supervisor.records.rule_watch import RuleWatch
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.reports import make_report, write_trace
from workers.supervisor.sessions import Sessions
from workers.supervisor.valkey_thread import EXCHANGE_EVERY_S, ValkeyThread
from workers.transport.control_socket import Answer, Request, listen, serve_one, socket_path
from workers.transport.node_config import load_config
from workers.transport.valkey import connect

log = structlog.get_logger(__name__)

POLL_EVERY_S = 0.1
RESERVE_BYTES = 256 * 1024
LEAST_FREE_BYTES = 64 * 1024
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
        supervisor = Supervisor(request, folder, lifeline, confinement)
        os.write(notify, b"locked\n")
        os.close(notify)
        try:
            supervisor.run()
        finally:
            supervisor.close()
    return 0


class Supervisor:
    def __init__(self, request: StartRequest, folder: AttemptFolder, lifeline: int, confinement: Confinement) -> None:
        order = folder.order()
        assert order is not None
        self.order, self.folder = order, folder
        self._request = request
        self.address = request.address
        self.lifeline = lifeline
        self.confinement = confinement
        self.waiting = waiting = confinement.waiting
        self.ranks: list[RankState] = []
        self._environment = build_for(order, folder, request)
        self.phase = Phase.READY if self._environment is None else Phase.PREPARING
        self._ending = Ending(order, folder)
        self._activity = Activity(folder)
        self._exits = ExitWatch(folder, self._activity)
        self._rules = RuleWatch(order.log_rules)
        self._sessions = Sessions(request.home)
        self.is_disk_full = self._has_lost_init = False
        with contextlib.suppress(OSError):
            self.folder.reserve.write_bytes(bytes(RESERVE_BYTES))
        self.go: Go | None = None
        config = load_config(Path(request.home))
        assert config is not None, "a node that has an order has joined"
        self._secrets = opened_secrets(request.secrets, config, order)
        if self._environment is not None:
            self._environment.secrets = self._secrets
        self._output = MaskedOutput(folder, order.first_rank, waiting.pipes, self._secrets)
        client = connect(config.redis_url)
        self.contact = Contact(client, config.key, order)
        self.shipper = Shipper(client, config.key, order, folder.spool, self.contact)
        self.ports = reserve_ports(self.address, order)
        self.control = listen(socket_path(folder.path))
        self.report = self._report()
        self._valkey_thread = ValkeyThread(self.contact, self.shipper, lambda: self.report)
        self._collector = Collector(order, folder, self.ranks, [os.getpid(), os.getppid()], self._rules)
        self._start = RankStart()
        self._hangs = HangWatch(order, folder, waiting.markers, self._activity)
        self._is_watching = False
        self._groups_due_at = 0.0
        self._early: dict[int, int] = {}  # how those ended that were to become ranks, by pid
        self._trace_id: str | None = None  # the last one that was written for the ranks
        self._new_lock: IO[bytes] | None = None  # of a folder that was made anew
        self._wakeup, self._wake = socket.socketpair()
        for end in (self._wakeup, self._wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end("interrupted"))
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        self._publish()
        self._valkey_thread.start()
        if self._environment is not None:
            self._collector.start()
        if self._wait_for_go():
            self._start_ranks()
            if self._environment is None:
                self._collector.start()
            self._publish()
            self._watch()
        self._finish()

    def close(self) -> None:
        self.control.close()
        self.confinement.close()
        socket_path(self.folder.path).unlink(missing_ok=True)

    def _wait_for_go(self) -> bool:
        """Prepare the environment and wait until the server says go. False when the end comes first."""
        while self.go is None and self._ending.cause is None:
            if self._environment is not None and self._environment.step():
                self._take_environment(self._environment)
            if self.contact.go is not None and self.phase == Phase.READY:
                self.go = self.contact.go
            self._wait_and_react()
        return self._ending.cause is None

    def _take_environment(self, environment: EnvironmentBuild) -> None:
        if environment.problem is not None:
            self._end(CODE)
        elif environment.is_ready:
            self.phase = Phase.READY
        self._publish()

    def _start_ranks(self) -> None:
        assert self.go is not None
        self._start = start_of_ranks(self.order, self.folder, self._environment)
        self._is_watching = "script" in self.order.spec["task"] and not self._start.is_cold and can_watch()
        if self._start.is_cold:
            marks = marks_files(self.folder, self.order)
            self._hangs = HangWatch(self.order, self.folder, marks, self._activity)
        replicas = replica_plan(self._request, self.order, self.go)
        temporary = self.confinement.name_temporary()
        plans = [
            plan_rank(
                local_rank,
                order=self.order,
                go=self.go,
                folder=self.folder,
                cache=Path(self._request.cache),
                checkpoints=Path(self._request.checkpoints),
                temporary=temporary,
                address=self.confinement.address,
                isolation=self.confinement.isolation,
                start=self._start,
                replicas=replicas,
                secrets=self._secrets,
            )
            for local_rank in range(self.order.num_ranks)
        ]
        plans = [self.confinement.confined(plan) for plan in plans]
        self._sessions.know(plans)
        close_all(self.ports)
        if self.waiting.pipes:
            self._output.start()
        for plan in plans:
            pid = self.waiting.start(plan)
            group = "none" if self._is_watching else "unknown"
            has_torchrun = "RANK" in plan.environment
            state = RankState(rank=plan.rank, pid=pid, started_at=time.time(), group=group, has_torchrun=has_torchrun)
            self.ranks.append(state)
            if pid in self._early:
                self._record_exit(pid, self._early[pid])
        self.folder.record_processes([identify(pid) for pid in [os.getpid(), os.getppid(), *self._living()]])
        self.phase = Phase.RUNNING

    def _watch(self) -> None:
        while any(rank.ended_at is None for rank in self.ranks):
            self._wait_and_react()
            if self._ending.cause is None and any(rank.is_fatal(self.order.spec) for rank in self.ranks):
                self._end("failed")
            if self._ending.is_over:
                self._ending.record_killed(self.ranks)
                kill_children(self._record_exit)
            self._update_groups()
            self.confinement.keep()
            has_news = self._activity.update(self.ranks)
            self._exits.update(self.ranks)
            if self._hangs.update(self.ranks) or has_news or self._rules.has_news:
                self._publish()
            self._update_port()

    def _wait_and_react(self) -> None:
        """Wait for the next event, at most POLL_EVERY_S, and react to it."""
        readers: list[Any] = [self.control, self._wakeup, *([self.lifeline] if self.lifeline >= 0 else [])]
        ready, _, _ = select.select(readers, [], [], POLL_EVERY_S)
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                self._wakeup.recv(4096)
        self._reap()
        if self.control in ready:
            serve_one(self.control, self._answer)
        if self.lifeline in ready:
            self.lifeline = -1
            self._end("interrupted")
        if self.contact.trace is not None and self.phase == Phase.RUNNING:
            self._trace_id = write_trace(self.folder, self.contact.trace, self._trace_id)
        if self.contact.cause is not None:
            self._end(self.contact.cause, self.contact.grace_s)
        if self._is_leased() != self.report.is_leased:
            self._publish()
        if self._is_leased() and self.contact.is_over(self.order.lease_s, has_ranks=self.go is not None):
            self._end("lease_expired")
        if self.phase == Phase.RUNNING and not self.folder.spool.is_dir():
            self._replace_folder()
            self._end("folder_deleted")

    def _replace_folder(self) -> None:
        """Make the deleted folder again, for the report: without one the reason of the end would be lost."""
        self.folder.create(self.order)
        self._new_lock = self.folder.take_lock()  # the first one went with its file
        self.folder.record_processes([identify(pid) for pid in [os.getpid(), os.getppid(), *self._living()]])

    def _living(self) -> list[int]:
        return [rank.pid for rank in self.ranks if rank.ended_at is None]

    def _is_leased(self) -> bool:
        """Whether silence must end this attempt, since the server may go on without it. Before go it looks for another
        place at once; after go, only where the desired state allows it. Otherwise the ranks outlive an absent
        server."""
        return self.go is None or self.contact.may_replace

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0] != 0:
                self._record_exit(*reaped)

    def _record_exit(self, pid: int, status: int) -> None:
        if self._environment is not None and self._environment.take_exit(pid, status):
            return
        for rank in self.ranks:  # others are orphans that we adopted
            if rank.pid == pid and rank.ended_at is None:
                ending, user = self._start.exit_of(status), self.confinement.user
                rank.end(ending, time.time(), self.folder, is_cold=self._start.is_cold, user=user)
                self.confinement.record_memory(rank)
                log.info("rank.ended", rank=rank.rank, exit_code=rank.exit_code, signal=rank.signal)
                self._publish()
                return
        if self.phase == Phase.READY:  # somebody killed one that waits to become a rank
            self._early[pid] = status

    def _end(self, cause: str, grace_s: float | None = None) -> None:
        """Begin to end the ranks; the first cause is the reason. A shorter grace counts at any time."""
        if self.phase == Phase.ENDED or not self._ending.begin(cause, grace_s):
            return
        if self.phase == Phase.RUNNING:
            self.phase = Phase.STOPPING
        if self._ending.asks_ranks:
            for pid in self._living():
                send(pid, signal.SIGTERM)
        self._publish()

    def _update_groups(self) -> None:
        if self._is_watching and time.monotonic() >= self._groups_due_at:
            self._groups_due_at = time.monotonic() + EXCHANGE_EVERY_S
            if any(rank.update_group(self.folder) for rank in self.ranks if rank.ended_at is None):
                self._publish()

    def _update_port(self) -> None:
        """See whether rank 0 listens at its port: of cold ranks nothing else is known of a process group."""
        if not self._start.is_cold or self.order.world_size < 2 or not self.ranks or self.ranks[0].rank != 0:
            return
        if not self.ranks[0].has_listened and self.go is not None:
            self.ranks[0].has_listened = is_listening(self.go.master_port, self.confinement.sockets)

    def _answer(self, request: Request) -> Answer:
        """Serve the node worker: what it knows earlier than our own next look at the down document."""
        if request.fence not in (None, self.order.fence):
            return Answer(error="another fence")
        if request.do == "go" and request.go is not None and self.go is None and self.phase == Phase.READY:
            self.go = request.go
        elif request.do == "attach" and request.session is not None:
            return Answer(phase=self.phase, error=self._sessions.begin(request.session, self.phase, self.ranks))
        elif request.do == "stop":
            self._end(request.cause, request.grace_s)
        return Answer(phase=self.phase, pid=os.getpid())

    def _finish(self) -> None:
        """End whoever is left of the tree, write the final report, and ship until the server has it all."""
        self._has_lost_init = self._lost_init()
        kill_children(self._record_exit)
        take_name(self.folder.temporary, self.folder.attempt)
        if self._environment is not None:  # sending what is left may take long
            self._environment.close()
        self._output.finish()
        if self._collector.ident is not None:  # it was started
            self._collector.finish()
        self.phase = Phase.ENDED
        with contextlib.suppress(OSError):
            self.is_disk_full = shutil.disk_usage(self.folder.path).free < LEAST_FREE_BYTES
            self.folder.reserve.unlink(missing_ok=True)
        self._publish()
        limit_s = INTERRUPTED_SHIPPING_LIMIT_S if self._ending.cause == "interrupted" else SHIPPING_LIMIT_S
        self._valkey_thread.finish(self.report.producers, limit_s=limit_s)
        if not self.folder.is_ended():  # the disk was full; what was shipped may have made room
            self._publish()

    def _lost_init(self) -> bool:
        """Whether the first process of the ranks' namespaces was killed, and the kernel therefore killed those that
        ran: some may have been through before, and some were asked to end while their deaths were not seen yet."""
        is_killed = any(rank.signal == signal.SIGKILL and not rank.was_ended for rank in self.ranks)
        return is_killed and self.confinement.has_lost_holder

    def _publish(self) -> None:
        self.report = self._report()
        try:
            self.folder.write_report(self.report)
        except OSError as error:  # a full disk must not end the ranks; the server gets the report all the same
            log.error("report.unwritten", phase=self.phase, error=str(error))
        self._valkey_thread.send_now()

    def _report(self) -> AttemptReport:
        is_over = self.phase == Phase.ENDED
        free = [one.getsockname()[1] for one in self.ports] if self.phase == Phase.READY else []
        return make_report(
            self.order,
            at=time.time(),
            phase=self.phase,
            address=self.address,
            ports=free,
            supervisor_pid=os.getpid(),
            reason=self._reason() if is_over else None,
            ranks=[rank.snapshot() for rank in self.ranks],
            producers=last_sequences(self.folder.spool) if is_over else {},
            is_leased=self._is_leased(),
            matches=self._rules.matches(),
            image=self._environment.image if self._environment else "",
            preparation=self._environment.sentence if self._environment and self.phase == Phase.PREPARING else "",
        )

    def _reason(self) -> Reason | None:
        if self._has_lost_init:
            sentence = ending_sentence("init_killed", self.order.node_name)
            return Reason(code="init_killed", sentence=sentence, evidence={"node": self.order.node_name})
        if self._ending.cause == CODE:
            return self._environment.problem if self._environment is not None else None
        return self._ending.reason(self.ranks, self.contact.hang, is_disk_full=self.is_disk_full)

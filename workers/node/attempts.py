"""All attempts that have a folder on this node: their orders, their supervisors, and what the server wants of them."""

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import redis
import structlog

from trainyard.contract.base import BadMessage
from trainyard.contract.desired import DesiredAttempt
from trainyard.contract.locks import unlock
from trainyard.contract.node_status import ListedAttempt
from trainyard.contract.orders import Order
from trainyard.contract.reports import Reason
from trainyard.contract.seals import node_scope
from trainyard.contract.statuses import Phase, WantedPhase
from trainyard.spec.sections.hangs import HangRules
from workers.attempt.documents import StartRequest
from workers.attempt.folder import AttemptFolder, attempts_in
from workers.data_access import location_problem
from workers.node.dead_supervisors import Standstills, StillAlive, finish_dead
from workers.node.finished import FinishedAttempts
from workers.node.memory import NodeMemory
from workers.node.output import files
from workers.node.output.sending import output_state
from workers.node.preflight.self_check import check_folder
from workers.node.preparation import orders
from workers.node.preparation.orders import remove_locks
from workers.node.server_client import ServerClient
from workers.node.zygote_keeper import ZygoteKeeper, ZygoteUnavailable
from workers.replicas.receiving import KnownAttempt
from workers.sandbox.node import NETWORK, NO_ISOLATION, Isolation, user_of
from workers.supervisor.failure_sentences import NEWER_ATTEMPT, STOPPED_BEFORE_START
from workers.supervisor.reports import make_report
from workers.transport.control_socket import Request, send_request, socket_path
from workers.transport.node_config import NodeConfig, checkpoints_root, project_cache

log = structlog.get_logger(__name__)

NUM_THREADS = 8
SETTLED_S = 60.0  # of desired states without it, after which the server knows that an attempt is done
ORDER_REFUSED = "this node cannot read the order: the node and the server may be of different versions"


class Attempts:
    """Safe to call from any thread. What takes time runs in a pool, one thing per attempt at a time."""

    def __init__(
        self,
        config: NodeConfig,
        home: Path,
        *,
        address: str,
        zygote: ZygoteKeeper,
        source: ServerClient,
        finished: FinishedAttempts,
        isolation: Isolation = NO_ISOLATION,
        memory: NodeMemory | None = None,
    ) -> None:
        self._config, self._home, self._address, self._zygote = config, home, address, zygote
        self._source, self._finished, self._isolation = source, finished, isolation
        self._memory = memory or NodeMemory(None, "this node keeps no states in memory")
        self._folders: dict[str, AttemptFolder] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=NUM_THREADS, thread_name_prefix="attempt")
        self._listed: dict[str, DesiredAttempt] = {}
        self._troubles: dict[str, str] = {}  # why attempts cannot be prepared yet
        self._standstills = Standstills()
        self._done: dict[str, float] = {}  # by attempt: when, by the server's clock, it was first seen to be done
        self._settled: set[str] = set()  # attempts that need not be listed any more

    def adopt(self) -> None:
        """Take over what a node worker before us left: living supervisors go on, ``watch`` finishes the others. A
        folder whose order cannot be read stays as it is."""
        for folder in attempts_in(self._home):
            if folder.order() is None:
                log.warning("attempt.left_alone", attempt=folder.attempt)
                continue
            self._folders[folder.attempt] = folder
            if (pid := folder.lock_holder()) is not None:
                log.info("attempt.adopted", attempt=folder.attempt, supervisor=pid)

    def listed(self) -> dict[str, ListedAttempt]:
        """Return every attempt that has a folder here, but for those that the server knows to be done: a day of short
        trials leaves thousands of them."""
        found: dict[str, ListedAttempt] = {}
        stopped = self._standstills.stopped()
        for attempt, folder in list(self._folders.items()):
            if attempt not in self._settled and (order := folder.order()) is not None:
                found[attempt] = ListedAttempt(
                    run=order.run,
                    fence=order.fence,
                    phase=folder.phase(),
                    is_done=folder.is_done(),
                    is_stopped=attempt in stopped,
                    output=output_state(folder),
                )
        return found

    def troubles(self) -> dict[str, str]:
        """Return by attempt, of those that are to be prepared, why that does not succeed yet."""
        listed = self._listed
        self._troubles = {attempt: why for attempt, why in self._troubles.items() if attempt in listed}
        return dict(self._troubles)

    def known(self, attempt: str) -> KnownAttempt | None:
        """Return what counts for parts of states that other nodes send of an attempt; None where it does not live
        here, or keeps none."""
        folder = self._folders.get(attempt)
        order = folder.order() if folder is not None and not folder.is_ended() else None
        if order is None or not order.replica_key:
            return None
        group = user_of(order.spec.get("project", "")) if self._isolation.is_other_user else -1
        return KnownAttempt(order.run, order.fence, order.replica_key, group)

    def folder_of(self, attempt: str) -> AttemptFolder | None:
        return self._folders.get(attempt)

    def living(self) -> list[AttemptFolder]:
        return [folder for folder in list(self._folders.values()) if folder.lock_holder() is not None]

    def is_done_with(self, attempt: str) -> bool:
        """Return whether it is over, its supervisor too, and the server has all of it."""
        folder = self._folders.get(attempt)
        return folder is not None and folder.is_done() and folder.lock_holder() is None

    def end_all(self) -> None:
        """Ask every supervisor to end its ranks, since the machine is taken back."""
        for folder in list(self._folders.values()):
            order = folder.order()
            if order is None or not folder.was_started() or folder.is_ended():
                continue
            try:
                send_request(socket_path(folder.path), Request(do="stop", fence=order.fence, cause="preempted"))
            except OSError as error:  # it has just ended
                log.info("attempt.not_reached", attempt=folder.attempt, error=str(error))

    def begin(self, attempts: dict[str, DesiredAttempt]) -> None:
        """Do what is wanted of these attempts at once. What the server wants of the others is not known here."""
        for attempt, entry in attempts.items():
            self._try_to_follow(attempt, entry)

    def reconcile(self, listed: dict[str, DesiredAttempt]) -> None:
        """Send the difference between what the server wants and what is here. An attempt not listed is left alone."""
        self._listed = listed
        newest: dict[str, int] = {}
        for attempt, entry in listed.items():
            newest[entry.run] = max(entry.fence, newest.get(entry.run, 0))
            self._try_to_follow(attempt, entry)
        for folder in list(self._folders.values()):
            order = folder.order()
            if order is not None and order.fence < newest.get(order.run, 0):
                self._stop(order, Request(do="stop", fence=order.fence, cause="stale_fence"))

    def settle(self, wanted: Collection[str], at: float) -> None:
        """Stop listing the attempts that are done, once desired states have come for some time without them: the
        server has read by then that they are. ``wanted``: the attempts in the desired state of ``at``."""
        for attempt, folder in list(self._folders.items()):
            if attempt in wanted or not folder.is_done():
                self._done.pop(attempt, None)
                self._settled.discard(attempt)
            elif at - self._done.setdefault(attempt, at) > SETTLED_S:
                self._settled.add(attempt)

    def _try_to_follow(self, attempt: str, entry: DesiredAttempt) -> None:
        try:
            self._follow(attempt, entry)
        except BadMessage as error:  # an order of another version: the other attempts are not to wait for it
            log.warning("order.refused", attempt=attempt, error=str(error))
            self._troubles[attempt] = ORDER_REFUSED
        except Exception:  # a full disk: the other attempts are not to wait for it
            log.exception("attempt.not_followed", attempt=attempt)

    def _follow(self, attempt: str, entry: DesiredAttempt) -> None:
        """Raises BadMessage for an order that does not open, or has another shape."""
        folder = self._folders.get(attempt)
        if entry.wanted == WantedPhase.STOP:
            order = Order(attempt=attempt, run=entry.run, fence=entry.fence, node=self._config.id)
            self._stop(order, Request(do="stop", fence=entry.fence, grace_s=entry.grace_s))
        elif entry.order is not None and (folder is None or not (folder.was_started() or folder.is_ended())):
            order = unlock(self._config.key, node_scope("order", self._config.id), entry.order, Order)
            self._begin(order.attempt, partial(self._prepare, order))
        elif entry.go is not None and folder is not None and folder.phase() == Phase.READY:
            send_request(socket_path(folder.path), Request(do="go", fence=entry.fence, go=entry.go))

    def watch(self) -> bool:
        """Finish attempts whose supervisor died, advance those that are over, send traces of those that run. Returns
        whether the server should see the list at once."""
        folders = list(self._folders.items())
        living = {attempt: pid for attempt, folder in folders if (pid := folder.lock_holder()) is not None}
        has_news = self._standstills.look(living, may_end=self._may_end)
        for attempt, folder in folders:
            if attempt in self._busy:
                continue
            entry = self._listed.get(attempt)
            if folder.is_ended():
                if attempt not in living:
                    self._standstills.killed.pop(attempt, None)
                if self._finished.is_due(folder, is_listed=entry is not None):
                    self._begin(attempt, partial(self._advance, folder, entry))
            elif folder.was_started() and attempt not in living:
                self._begin(attempt, partial(self._finish_dead, folder))
            elif folder.unsent_traces() or self._finished.is_live_due(folder):
                self._begin(attempt, partial(self._finished.send_while_running, folder))
        return has_news

    def _may_end(self, attempt: str) -> bool:
        """Return whether a supervisor that does not go on is ended: a person may want to hear of it alone."""
        return (order := self._folders[attempt].order()) is None or HangRules.of(order.spec).action != "notify"

    def _prepare(self, order: Order) -> None:
        folder = AttemptFolder(self._home / "attempts" / order.attempt)
        if folder.was_started() or folder.is_ended():
            return
        try:
            others = (other for one in list(self._folders.values()) if (other := one.order()) is not None)
            if any(other.run == order.run and other.fence > order.fence for other in others):
                raise orders.CannotRunHere("stale_fence", NEWER_ATTEMPT)
            refuse_isolation(order, self._isolation)
            refuse_data(order, self._isolation)
            if problem := check_folder(root := checkpoints_root(self._home)).problem:  # no rank could keep one
                raise orders.CannotRunHere("checkpoints_unusable", f"The folder of checkpoints, {root}, {problem}.")
            orders.check_interpreter(order, self._isolation)
            orders.lay_out_code(order, folder, self._home / "cache", self._source)
            secrets = orders.fetch_secrets(order, self._source)
        except orders.CannotRunHere as refusal:
            self._end_unstarted(order, code=refusal.code, sentence=str(refusal), phase=Phase.REFUSED)
            return
        cache = project_cache(self._home, order.spec.get("project", ""))
        living = (other.order() for other in list(self._folders.values()) if not other.is_ended())
        projects = {other.spec.get("project", "") for other in living if other is not None}
        if cache not in {project_cache(self._home, project) for project in projects}:  # no rank may be at work in it
            remove_locks(cache)
        folder.create(order)
        files.record_code(folder)
        self._take_over(folder, order)
        self._folders[folder.attempt] = folder
        self._zygote.start_supervisor(
            StartRequest(
                folder=str(folder.path),
                home=str(self._home),
                isolation=self._isolation,
                address=self._address,
                cache=str(cache),
                checkpoints=str(checkpoints_root(self._home)),
                memory=str(self._memory.folder.path) if self._memory.folder else "",
                memory_limit_bytes=self._memory.folder.limit_bytes if self._memory.folder else 0,
                memory_problem=self._memory.problem,
                secrets=secrets,
            )
        )

    def _take_over(self, folder: AttemptFolder, order: Order) -> None:
        """Let the attempt go on in the working folder as the one before it left it here."""
        before: dict[int, AttemptFolder] = {}
        for other in list(self._folders.values()):
            known = other.order()
            if known is None or known.run != order.run or known.fence >= order.fence:
                continue
            if other.is_ended() and other.lock_holder() is None and other.was_started():
                before[known.fence] = other
        for _, other in sorted(before.items()):
            if number := files.take_over(other, folder):
                log.info("working_folder.taken_over", attempt=folder.attempt, before=other.attempt, files=number)

    def _stop(self, order: Order, request: Request) -> None:
        """Stop the order's attempt, or see to it that it never starts."""
        folder = self._folders.get(order.attempt)
        if folder is not None and folder.is_ended():
            self._standstills.answered(order.attempt)
            return
        if folder is not None and folder.was_started():
            has_answered = send_request(socket_path(folder.path), request) is not None
            self._standstills.answered(order.attempt, None if has_answered else folder.lock_holder())
        elif order.attempt not in self._busy:
            self._end_unstarted(order, code="stopped", sentence=STOPPED_BEFORE_START, phase=Phase.ENDED)

    def _end_unstarted(self, order: Order, *, code: str, sentence: str, phase: Phase) -> None:
        """Leave a folder whose report says that nothing ran here, so that a late order does not start it after all."""
        folder = AttemptFolder(self._home / "attempts" / order.attempt)
        folder.create(order)
        reason = Reason(code=code, sentence=sentence, evidence={})
        folder.write_report(make_report(order, at=time.time(), phase=phase, reason=reason))
        self._folders[order.attempt] = folder
        log.info("attempt.not_started", attempt=order.attempt, code=code)

    def _finish_dead(self, folder: AttemptFolder) -> None:
        # It may have ended gracefully meanwhile: it writes its final report before it lets go of the lock.
        if not folder.is_ended() and folder.lock_holder() is None:
            finish_dead(folder, self._standstills.killed.get(folder.attempt, ""))

    def _advance(self, folder: AttemptFolder, entry: DesiredAttempt | None) -> None:
        if self._finished.advance(folder, entry):
            self._folders.pop(folder.attempt, None)
            self._done.pop(folder.attempt, None)
            self._settled.discard(folder.attempt)

    def _begin(self, attempt: str, work: Callable[[], None]) -> None:
        """Run ``work`` in the pool unless something of this attempt is under way: callers try again later."""
        with self._lock:
            if attempt in self._busy:
                return
            self._busy.add(attempt)
        self._pool.submit(self._run, attempt, work)

    def _run(self, attempt: str, work: Callable[[], None]) -> None:
        try:
            work()
            self._troubles.pop(attempt, None)
        except (ZygoteUnavailable, StillAlive, redis.RedisError, httpx.HTTPError, OSError) as error:
            log.warning("attempt.trouble", attempt=attempt, error=str(error))
            if attempt not in self._folders or not self._folders[attempt].was_started():
                self._troubles[attempt] = _problem_of(error)
        except Exception:  # the pool would swallow it; the reconciler tries again next second
            log.exception("attempt.bug", attempt=attempt)
        finally:
            with self._lock:
                self._busy.discard(attempt)


def _problem_of(error: Exception) -> str:
    """Return why an attempt cannot be prepared yet."""
    if isinstance(error, httpx.HTTPError):
        if error._request is None:
            return f"the server cannot be reached: {str(error) or type(error).__name__}"
        url = error.request.url
        is_of_secrets = url.path.endswith("/secrets")
        if isinstance(error, httpx.HTTPStatusError):
            what = "its secrets were" if is_of_secrets else "the run's code was"
            return f"the server answered {error.response.status_code} when {what} fetched"
        what = "its secrets" if is_of_secrets else "the run's code"
        server = f"{url.scheme}://{url.netloc.decode()}"
        return f"{what} cannot be fetched from {server}: {str(error) or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    return str(error) or type(error).__name__


def refuse_isolation(order: Order, isolation: Isolation) -> None:
    """Raise CannotRunHere where this node keeps ranks apart less well than the cluster asks for, or from each other."""
    if isolation.level < order.isolation_minimum:
        raise orders.CannotRunHere(
            "isolation_too_low",
            f"Node {order.node_name} has sandbox level {isolation.level}, and its cluster asks for "
            f"{order.isolation_minimum}. {' '.join(isolation.missing)}".strip(),
        )
    if isolation.has_own_network and order.num_nodes > 1:
        raise orders.CannotRunHere(
            "network_closed",
            f"On {order.node_name} ranks have a network of their own ({NETWORK}=own), and this run needs "
            f"{order.num_nodes} nodes.",
        )


def refuse_data(order: Order, isolation: Isolation = NO_ISOLATION) -> None:
    """Raise CannotRunHere where a recipe would read what this node does not read from."""
    location = str((order.spec.get("task", {}).get("data") or {}).get("location") or "")
    if problem := location_problem(location) or isolation.problem_of(location):
        raise orders.CannotRunHere("data_outside", f"task.data.location: {problem}.")

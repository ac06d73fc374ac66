"""Work that remains for an attempt that is over: repeat its report, ship its records, upload its output, delete it."""

import threading
import time
from collections.abc import Callable
from functools import partial

import httpx
import redis
import structlog
from msgspec.structs import replace

from trainyard.contract.desired import DesiredAttempt
from trainyard.contract.limits import UNSENT_KEPT_S
from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport
from trainyard.contract.seals import report_key, report_scope, seal
from trainyard.spooling.held_folder import HeldFolder, remove_tree
from workers.attempt.folder import TRACES, AttemptFolder
from workers.node.output.sending import carry_out_decision, is_refusal, report_taken, upload_finished, upload_output
from workers.node.server_client import ServerClient, problem_of
from workers.supervisor.contact import REPORT_KEPT_S, Contact
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.valkey_thread import ValkeyThread
from workers.transport.node_config import NodeConfig

log = structlog.get_logger(__name__)


STEP_EVERY_S = 1.0
RARELY_S = 30.0
LONGEST_PAUSE_S = 60.0
SHIPPING_LIMIT_S = 600.0
KEEP_S = 86_400.0
LIVE_EVERY_S = 5.0


class FinishedAttempts:
    """Called for one attempt by one thread at a time."""

    def __init__(
        self, config: NodeConfig, client: redis.Redis, server: ServerClient, *, sends_all: bool = False
    ) -> None:
        self._sends_all, self._config, self._client, self._server = sends_all, config, client, server
        self._due: dict[str, tuple[float, float]] = {}  # when the next look is due, if listed and if not
        self._upload_due: dict[str, tuple[float, float]] = {}
        self._live_due: dict[str, float] = {}
        self._shipping: dict[str, threading.Thread] = {}

    def is_due(self, folder: AttemptFolder, *, is_listed: bool) -> bool:
        now = time.monotonic()
        often, seldom = self._due.get(folder.attempt, (0.0, 0.0))
        return now >= (often if is_listed else seldom)

    def advance(self, folder: AttemptFolder, entry: DesiredAttempt | None) -> bool:
        """Do what is due. ``entry`` is what the server lists of it. Returns True when the folder was deleted.

        While the supervisor lives it ships and reports by itself. Raises redis.RedisError.
        """
        order, report = folder.order(), folder.report()
        assert order is not None and report is not None
        is_living = folder.lock_holder() is not None
        now = time.monotonic()
        self._due[folder.attempt] = now + STEP_EVERY_S, now + STEP_EVERY_S
        if entry is not None and not is_living:
            # Before the upload, which may take long: that it is over is what the server waits for.
            self._repeat_report(order, report)
            if not folder.shipped_mark.exists():
                self._ship(order, report, folder, entry)
        if self._upload(order, folder, entry) and not is_living:
            self._due[folder.attempt] = now + STEP_EVERY_S, now + RARELY_S
        if order.encrypts and folder.is_done() and not is_living:
            folder.empty()
        kept_s = KEEP_S if folder.is_done() else UNSENT_KEPT_S
        if entry is None and not is_living and time.time() - report.at > kept_s:
            remove_tree(folder.path)
            for memory in (self._due, self._upload_due, self._live_due, self._shipping):
                memory.pop(folder.attempt, None)
            return True
        return False

    def is_live_due(self, folder: AttemptFolder) -> bool:
        """Return whether it is time to look at the output of an attempt that still runs."""
        return folder.was_started() and time.monotonic() >= self._live_due.get(folder.attempt, 0.0)

    def send_while_running(self, folder: AttemptFolder) -> None:
        """Send traces of an attempt that still runs, and the output files that are finished."""
        order = folder.order()
        assert order is not None
        if folder.unsent_traces():
            self._try(folder, send_traces, order)
        if self.is_live_due(folder):
            self._live_due[folder.attempt] = time.monotonic() + LIVE_EVERY_S
            self._try(folder, upload_finished, order)

    def _repeat_report(self, order: Order, report: AttemptReport) -> None:
        node = self._config.id
        scope = report_scope(node, order.run, order.fence)
        stamped = replace(report, at=time.time())
        self._client.set(report_key(node, order.attempt), seal(self._config.key, scope, stamped), ex=REPORT_KEPT_S)

    def _ship(self, order: Order, report: AttemptReport, folder: AttemptFolder, entry: DesiredAttempt) -> None:
        """Send what a dead supervisor had not: nothing that reached a spool is lost."""
        stored = entry.watermarks
        if entry.is_gone or all(stored.get(name, 0) >= last for name, last in report.producers.items()):
            folder.shipped_mark.touch()
            return
        running = self._shipping.get(folder.attempt)
        if running is not None and running.is_alive():
            return
        contact = Contact(self._client, self._config.key, order)
        contact.watermarks = dict(stored)
        shipper = Shipper(self._client, self._config.key, order, folder.spool, contact)
        thread = ValkeyThread(contact, shipper, lambda: report)
        thread.start()
        kwargs = {"limit_s": SHIPPING_LIMIT_S}
        waiter = threading.Thread(target=thread.finish, args=(report.producers,), kwargs=kwargs, daemon=True)
        waiter.start()
        self._shipping[folder.attempt] = waiter

    def _upload(self, order: Order, folder: AttemptFolder, entry: DesiredAttempt | None) -> bool:
        """Upload the output, and do what was decided about the rest. True when nothing more is to be done now."""
        if entry is not None and entry.is_gone:
            folder.uploaded_mark.touch()
            folder.decided_mark.touch()
        if not folder.uploaded_mark.exists() and not self._try(folder, upload_output, order):
            return False
        if folder.taken_mark.exists() and not self._try(folder, report_taken, order):
            return False
        decision = (entry.leftovers if entry is not None else "") or ("upload" if self._sends_all else "")
        if decision and not folder.decided_mark.exists():
            return self._try(folder, partial(carry_out_decision, decision), order)
        return True

    def _try(self, folder: AttemptFolder, upload: Callable[..., None], order: Order) -> bool:
        """Upload, trying again ever more rarely while the server is away. True when it is done."""
        due, pause_s = self._upload_due.get(folder.attempt, (0.0, STEP_EVERY_S))
        if time.monotonic() < due:
            return False
        try:
            upload(order, folder, self._server)
        except (httpx.HTTPError, OSError) as error:
            log.warning("output.waiting", attempt=folder.attempt, error=str(error), pause_s=pause_s)
            folder.output_problem = problem_of_upload(error)
            self._upload_due[folder.attempt] = (time.monotonic() + pause_s, min(2 * pause_s, LONGEST_PAUSE_S))
            return False
        folder.output_problem = ""
        self._upload_due.pop(folder.attempt, None)
        return True


def problem_of_upload(error: httpx.HTTPError | OSError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"The server answered {error.response.status_code}: {problem_of(error.response)}"
    if isinstance(error, httpx.HTTPError):
        return f"The server does not answer: {str(error) or type(error).__name__}."
    return f"A file cannot be read: {error.strerror or error}."


def send_traces(order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Send the traces of steps that are new and whole, from any node of the attempt, while the run goes on. Raises
    httpx.HTTPError to be tried again."""
    for one in folder.unsent_traces():
        name = f"{TRACES}/{one}"
        try:
            with HeldFolder.open(folder.output) as output, output.open_file(name) as file:
                server.put_file(order.run, order.fence, name, file)
        except httpx.HTTPStatusError as error:
            if not is_refusal(error):
                raise
            log.warning("trace.refused", run=order.run, file=name, why=problem_of(error.response))
        mark = folder.sent_mark(one)
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch()

"""All attempts that have a folder on this node: their orders, their supervisors, and what the server wants of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import redis
import structlog

from workers.attempt.folder import AttemptFolder, attempts_in
from workers.contract import Document, order_scope, unlock
from workers.data_access.roots import location_problem
from workers.node.config import NodeConfig, checkpoints_root, project_cache
from workers.node.dead_supervisors import StillAlive, bury, never_started
from workers.node.finished import Afterlife
from workers.node.output import working_folder as leftovers
from workers.node.output.sending import output_document
from workers.node.preparation.bundles import Refusal, Source, lay_out_code
from workers.node.preparation.interpreters import check_interpreter
from workers.node.zygote_keeper import ZygoteGone, ZygoteKeeper
from workers.sandbox.node import OPEN, Shelter
from workers.transport.control_socket import ask, socket_path

log = structlog.get_logger(__name__)

NUM_THREADS = 8


class Attempts:
    """Safe to call from any thread. What takes time runs in a pool, one thing per attempt at a time."""

    def __init__(
        self,
        config: NodeConfig,
        home: Path,
        *,
        address: str,
        zygote: ZygoteKeeper,
        source: Source,
        afterlife: Afterlife,
        shelter: Shelter = OPEN,
    ) -> None:
        self._config = config
        self._home = home
        self._address = address
        self._zygote = zygote
        self._source = source
        self._afterlife = afterlife
        self._shelter = shelter
        self._known: dict[str, AttemptFolder] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=NUM_THREADS, thread_name_prefix="attempt")
        self._listed: dict[str, Document] = {}
        self._troubles: dict[str, str] = {}  # why attempts cannot be prepared yet

    def adopt(self) -> None:
        """Take over what a node worker before us left: living supervisors go on, the dead are buried by ``watch``."""
        for folder in attempts_in(self._home):
            self._known[folder.attempt] = folder
            if (pid := folder.lock_holder()) is not None:
                log.info("attempt.adopted", attempt=folder.attempt, supervisor=pid)

    def phases(self) -> Document:
        """Return run, fence and phase of every attempt that has a folder here."""
        found: Document = {}
        for attempt, folder in list(self._known.items()):
            if (order := folder.order()) is not None:
                about = {"phase": folder.phase(), "is_done": folder.is_done(), "output": output_document(folder)}
                found[attempt] = {"run": order["run"], "fence": order["fence"], **about}
        return found

    def troubles(self) -> dict[str, str]:
        """Return by attempt, of those that are to be prepared, why that does not succeed yet."""
        listed = self._listed
        self._troubles = {attempt: why for attempt, why in self._troubles.items() if attempt in listed}
        return dict(self._troubles)

    def num_living(self) -> int:
        return sum(folder.lock_holder() is not None for folder in list(self._known.values()))

    def prepare(self, order: Document) -> None:
        """Get a supervisor for the order, unless there is or was one. Raises BadSeal for one that does not open."""
        order = unlock(self._config.key, order_scope(self._config.id), order)
        self._begin(order["attempt"], partial(self._prepare, order))

    def go(self, attempt: str, fence: int, go: Document) -> None:
        if (folder := self._known.get(attempt)) is not None:
            ask(socket_path(folder.path), {"do": "go", "fence": fence, "go": go})

    def reconcile(self, listed: dict[str, Document]) -> None:
        """Send the difference between what the server wants and what is here. An attempt not listed is left alone."""
        self._listed = listed
        newest: dict[str, int] = {}
        for attempt, entry in listed.items():
            newest[entry["run"]] = max(entry["fence"], newest.get(entry["run"], 0))
            try:
                self._follow(attempt, entry)
            except Exception:  # a full disk, or an order of another version: the other attempts are not to wait for it
                log.exception("attempt.not_followed", attempt=attempt)
        for attempt, folder in list(self._known.items()):
            order = folder.order()
            if order is not None and order["fence"] < newest.get(order["run"], 0):
                self._stop(attempt, order, "stale_fence")

    def _follow(self, attempt: str, entry: Document) -> None:
        if entry.get("order") is not None:
            entry = {**entry, "order": unlock(self._config.key, order_scope(self._config.id), entry["order"])}
        if entry["wanted"] == "stop":
            self._stop(attempt, entry, "stopped")
        elif entry.get("order") is not None and not self._was_started(attempt):
            self.prepare(entry["order"])
        elif entry.get("go") is not None and self._is_ready(attempt):
            self.go(attempt, entry["fence"], entry["go"])

    def watch(self) -> None:
        """Bury the attempts whose supervisor died, look after those that are over, send traces of those that run."""
        for attempt, folder in list(self._known.items()):
            if attempt in self._busy:
                continue
            entry = self._listed.get(attempt)
            if folder.is_ended():
                if self._afterlife.is_due(folder, is_listed=entry is not None):
                    self._begin(attempt, partial(self._look_after, folder, entry))
            elif folder.was_started() and folder.lock_holder() is None:
                self._begin(attempt, partial(self._bury, folder))
            elif folder.unsent_traces() or self._afterlife.is_live_due(folder):
                self._begin(attempt, partial(self._afterlife.look_during_life, folder))

    def _prepare(self, order: Document) -> None:
        folder = AttemptFolder(self._home / "attempts" / order["attempt"])
        if folder.was_started() or folder.is_ended():
            return
        try:
            self._refuse_stale(order)
            refuse_data(order, self._shelter)
            check_interpreter(order, self._shelter)
            lay_out_code(order, folder, self._home / "cache", self._source)
        except Refusal as refusal:
            self._end_unstarted(order, order, code=refusal.code, sentence=str(refusal), phase="refused")
            return
        folder.create(order)
        leftovers.note_code(folder)
        self._take_over(folder)
        self._known[folder.attempt] = folder
        self._zygote.start_supervisor(
            folder.path,
            {
                "home": str(self._home),  # the key is read there, once the ranks' processes are forked
                "shelter": self._shelter.as_document(),
                "address": self._address,
                "cache": str(project_cache(self._home, order["spec"].get("project", ""))),
                "checkpoints": str(checkpoints_root(self._home)),
            },
        )

    def _take_over(self, folder: AttemptFolder) -> None:
        """Let the attempt go on in the working folder as the one before it left it here."""
        order = folder.order()
        assert order is not None
        before: dict[int, AttemptFolder] = {}
        for other in list(self._known.values()):
            known = other.order() or {}
            is_older = known.get("run") == order["run"] and known.get("fence", 0) < order["fence"]
            if is_older and other.is_ended() and other.lock_holder() is None and other.was_started():
                before[known["fence"]] = other
        for _, other in sorted(before.items()):
            if number := leftovers.take_over(other, folder):
                log.info("working_folder.taken_over", attempt=folder.attempt, before=other.attempt, files=number)

    def _refuse_stale(self, order: Document) -> None:
        for folder in list(self._known.values()):
            other = folder.order()
            if other is not None and other["run"] == order["run"] and other["fence"] > order["fence"]:
                raise Refusal("stale_fence", "A newer attempt of this run is here already.")

    def _stop(self, attempt: str, entry: Document, cause: str) -> None:
        folder = self._known.get(attempt)
        if folder is not None and folder.is_ended():
            return
        if folder is not None and folder.was_started():
            request = {"do": "stop", "fence": entry["fence"], "cause": cause, "grace_s": entry.get("grace_s")}
            ask(socket_path(folder.path), request)
        elif attempt not in self._busy:
            sentence = "The run was asked to stop before anything of it had started here."
            self._end_unstarted(
                entry.get("order") or entry, entry, code="stopped", sentence=sentence, phase="ended", attempt=attempt
            )

    def _end_unstarted(
        self, order: Document, entry: Document, *, code: str, sentence: str, phase: str, attempt: str = ""
    ) -> None:
        """Leave a folder that says that nothing ran here, so that a late order does not start it after all."""
        attempt = attempt or order["attempt"]
        folder = AttemptFolder(self._home / "attempts" / attempt)
        folder.create({**order, "attempt": attempt, "run": entry["run"], "fence": entry["fence"]})
        report = never_started(entry, attempt=attempt, node=self._config.id, code=code, sentence=sentence, phase=phase)
        folder.write_report(report)
        self._known[attempt] = folder
        log.info("attempt.not_started", attempt=attempt, code=code)

    def _bury(self, folder: AttemptFolder) -> None:
        # It may have ended in order since we looked: it writes its final report before it lets go of the lock.
        if not folder.is_ended():
            bury(folder)

    def _look_after(self, folder: AttemptFolder, entry: Document | None) -> None:
        if self._afterlife.look_after(folder, entry):
            self._known.pop(folder.attempt, None)

    def _was_started(self, attempt: str) -> bool:
        folder = self._known.get(attempt)
        return folder is not None and (folder.was_started() or folder.is_ended())

    def _is_ready(self, attempt: str) -> bool:
        folder = self._known.get(attempt)
        return folder is not None and folder.phase() == "ready"

    def _begin(self, attempt: str, work: Callable[[], None]) -> None:
        """Run ``work`` in the pool unless something of this attempt is under way: whoever asks, asks again."""
        with self._lock:
            if attempt in self._busy:
                return
            self._busy.add(attempt)
        self._pool.submit(self._run, attempt, work)

    def _run(self, attempt: str, work: Callable[[], None]) -> None:
        try:
            work()
            self._troubles.pop(attempt, None)
        except (ZygoteGone, StillAlive, redis.RedisError, httpx.HTTPError, OSError) as error:
            log.warning("attempt.trouble", attempt=attempt, error=str(error))
            if attempt not in self._known or not self._known[attempt].was_started():
                self._troubles[attempt] = _in_words(error)
        except Exception:  # the pool would swallow it; the reconciler tries again next second
            log.exception("attempt.bug", attempt=attempt)
        finally:
            with self._lock:
                self._busy.discard(attempt)


def _in_words(error: Exception) -> str:
    """Say why an attempt cannot be prepared yet."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answered {error.response.status_code} when the run's code was fetched"
    if isinstance(error, httpx.HTTPError):
        server = f"{error.request.url.scheme}://{error.request.url.netloc.decode()}" if error._request else "the server"
        return f"the run's code cannot be fetched from {server}: {str(error) or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    return str(error) or type(error).__name__


def refuse_data(order: Document, shelter: Shelter = OPEN) -> None:
    """Raise Refusal where a recipe would read what this node does not read from."""
    data = order["spec"].get("task", {}).get("data") or {}
    location = str(data.get("location") or "")
    if problem := location_problem(location) or shelter.problem_of(location):
        raise Refusal("data_outside", f"task.data.location: {problem}.")

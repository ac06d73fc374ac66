"""Looks into datasets for the server: each in a child of its own, which is slow to take and quick to give way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

import httpx
import structlog

from workers.contract import MAX_FACTS_BYTES, Document
from workers.data_access.roots import CLOSED, location_problem
from workers.machine.passed_variables import passed
from workers.node.config import project_cache
from workers.node.zygote_keeper import ONE_THREAD, PASSED_ON
from workers.sandbox.node import OPEN, Shelter
from workers.sandbox.process import CELL

log = structlog.get_logger(__name__)

LIMIT_S = 600.0
MAX_OUTPUT = MAX_FACTS_BYTES + 4_096
MAX_PROBLEM = 2_000
NUM_LOOKS = 2  # at once: one that is long keeps few others waiting
REMEMBERED = 100  # questions that were answered; a hint that comes late is one of them
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LOOKER = "workers.training.data.inspection.inspect"
ROOT = Path(__file__).resolve().parents[3]


class Answers(Protocol):
    def answer_dataset(self, dataset: str, answer: Document) -> None: ...


class Inspector:
    """Takes questions (see workers.contract, INSPECT), few at a time, and answers each until the server heard."""

    def __init__(
        self, home: Path, server: Answers, shelter: Shelter = OPEN, *, limit_s: float = LIMIT_S, looker: str = LOOKER
    ) -> None:
        self._home = home
        self._server = server
        self._shelter = shelter
        self._limit_s = limit_s
        self._looker = looker
        self._open: dict[str, Document] = {}
        self._answered: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        # A child asks to die with the thread that forks it, so these threads must stay.
        self._pool = ThreadPoolExecutor(max_workers=NUM_LOOKS, thread_name_prefix="inspect")

    def questions(self) -> list[str]:
        """Return what is looked at, waits for it, or could not be answered yet."""
        return list(self._open)

    def take(self, question: Document) -> None:
        """Begin to look, unless it is looked at or was answered already."""
        name = str(question["question"])
        with self._lock:
            if name in self._open or name in self._answered or self._over.is_set():
                return
            self._open[name] = question
        self._pool.submit(self._work, question)

    def stop(self) -> None:
        """Begin no further look, and end those that are under way, of which nothing is said: somebody else is asked."""
        self._over.set()
        for child in list(self._children):
            _kill(child)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, question: Document) -> None:
        name = str(question["question"])
        try:
            found = self.look(question)
            self._answer(question["dataset"], {"question": name, **found})
        except Exception:  # the pool would swallow it; control asks again
            log.exception("dataset.bug", dataset=question.get("dataset"))
        finally:
            with self._lock:
                self._open.pop(name, None)
                self._answered = [*self._answered[-REMEMBERED:], name]

    def look(self, question: Document) -> Document:
        """Return ``{"facts": …}`` or ``{"problem": sentence}``."""
        location = str(question["data"].get("location", ""))
        if problem := location_problem(location) or self._shelter.problem_of(location):
            return {"problem": f"{problem[0].upper()}{problem[1:]}."}
        asked = json.dumps({"recipe": question["recipe"], "data": question["data"]}).encode()
        (self._home / "looks").mkdir(mode=0o711, exist_ok=True)
        with (
            tempfile.TemporaryFile() as complaints,
            tempfile.TemporaryDirectory(dir=self._home / "looks", ignore_cleanup_errors=True) as room,
        ):
            try:
                child = self._start(complaints, question, Path(room))
            except OSError as error:  # no process or memory to spare
                return {"problem": f"The node could not begin to look: {error.strerror or error}. Check it again."}
            with child:
                self._children.add(child)
                if self._over.is_set():  # it was forked while we stopped
                    _kill(child)
                output, is_late = self._read(child, asked)
                self._children.discard(child)
            if is_late:
                return {"problem": f"Looking took more than {self._limit_s:g} s and was ended. Try a smaller part."}
            return _understood(output, child.returncode, complaints)

    def _start(self, complaints: IO[bytes], question: Document, room: Path) -> subprocess.Popen[bytes]:
        project = str(question.get("project", ""))
        cache = project_cache(self._home, project)
        cell = self._shelter.cell(project, own=[cache, room])
        environment = {**passed(os.environ), **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}
        # As for a rank: neither the node's own settings nor what its user keeps at home.
        environment |= {**ONE_THREAD, "HOME": str(room), "TMPDIR": str(room), "TRAINYARD_CACHE": str(cache)}
        environment[CLOSED] = os.pathsep.join(self._shelter.hidden)
        environment["TRAINYARD_ATTEMPT"] = str(question["question"])  # what has no version is fetched anew for each
        return subprocess.Popen(
            [sys.executable, "-m", "workers.node.inspection.child", str(os.getpid()), self._looker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=ROOT,
            env={**environment, CELL: json.dumps(cell.as_document())},
            process_group=0,
        )

    def _read(self, child: subprocess.Popen[bytes], asked: bytes) -> tuple[bytes, bool]:
        """Return what the child printed, at most so much of it, and whether its time was over."""
        assert child.stdin is not None and child.stdout is not None
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            _kill(child)

        timer = threading.Timer(self._limit_s, end)
        timer.daemon = True
        timer.start()
        try:
            try:
                child.stdin.write(asked)
                child.stdin.close()
            except BrokenPipeError:  # it died before it read: what it printed, or nothing, says why
                pass
            output = child.stdout.read(MAX_OUTPUT + 1)
            if len(output) > MAX_OUTPUT:
                _kill(child)
            child.wait()
        finally:
            timer.cancel()
        return output, is_late.is_set()

    def _answer(self, dataset: str, answer: Document) -> None:
        """Send it until the server took or refused it: one that is away comes back, and control waits meanwhile."""
        pause_s = FIRST_PAUSE_S
        while not self._over.is_set():
            try:
                self._server.answer_dataset(dataset, answer)
                return
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status == 422 and "problem" not in answer:
                    words = "What the node found in these files is nothing that can be shown"
                    answer = {"question": answer["question"], "problem": f"{words}: {error.response.text[:300]}"}
                    continue
                if status < 500:  # it asked another node meanwhile, or the dataset was deleted
                    log.info("dataset.not_wanted", dataset=dataset, status=status)
                    return
            except httpx.HTTPError as error:
                log.warning("dataset.not_answered", dataset=dataset, error=str(error))
            self._over.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _understood(output: bytes, returncode: int | None, complaints: IO[bytes]) -> Document:
    if len(output) > MAX_OUTPUT:
        return {"problem": "There is more to say of these files than the server takes. Try a smaller part."}
    try:
        document = json.loads(output)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("facts"), dict):
        return {"facts": document["facts"]}
    if isinstance(document, dict) and isinstance(document.get("problem"), str):
        return {"problem": document["problem"][:MAX_PROBLEM]}
    return {"problem": _death(returncode, complaints)}


def _death(returncode: int | None, complaints: IO[bytes]) -> str:
    if returncode is not None and returncode < 0:
        why = " Most likely the node ran out of memory." if returncode == -signal.SIGKILL else ""
        return f"Looking was ended by {signal.Signals(-returncode).name}.{why}"
    complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, complaints.tell() - 4_096))
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return f"Looking failed: {lines[-1][:500]}" if lines else "Looking failed and said nothing of why."


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)

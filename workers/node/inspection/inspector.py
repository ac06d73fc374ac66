"""Inspects datasets for the server, each in a child process of low priority."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import httpx
import structlog

from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.inspections import Answer, DatasetFacts, Question
from trainyard.contract.limits import MAX_FACTS_BYTES
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.temporary import give_name, take_name
from workers.data_access import CLOSED, location_problem
from workers.node.server_client import ServerClient
from workers.node.zygote_keeper import child_variables
from workers.sandbox.node import NO_ISOLATION, Isolation
from workers.sandbox.process import ROOT, SANDBOX
from workers.transport.node_config import project_cache

log = structlog.get_logger(__name__)

LIMIT_S = 600.0
MAX_OUTPUT = MAX_FACTS_BYTES + 4_096
MAX_PROBLEM = 2_000
NUM_INSPECTIONS = 2  # at once: one that is long keeps few others waiting
REMEMBERED = 100  # questions that were answered; a hint that comes late is one of them
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
MODULE = "workers.training.data.inspection.inspect"


class Findings(WireStruct):
    facts: DatasetFacts | None = None
    problem: str = ""


class Inspector:
    """Takes questions, works on few at a time, and sends each answer until the server has it."""

    def __init__(
        self,
        home: Path,
        server: ServerClient,
        isolation: Isolation = NO_ISOLATION,
        *,
        limit_s: float = LIMIT_S,
        module: str = MODULE,
    ) -> None:
        self._home, self._server, self._isolation, self._limit_s = home, server, isolation, limit_s
        self._module = module
        self._open: dict[str, Question] = {}
        self._answered: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        # A child asks to die with the thread that forks it, so these threads must stay.
        self._pool = ThreadPoolExecutor(max_workers=NUM_INSPECTIONS, thread_name_prefix="inspect")

    def questions(self) -> list[str]:
        """Return the questions that are worked on, wait, or whose answer was not sent yet."""
        return list(self._open)

    def take(self, question: Question) -> None:
        """Begin to inspect, unless the question is worked on or was answered already."""
        name = question.question
        with self._lock:
            if name in self._open or name in self._answered or self._over.is_set():
                return
            self._open[name] = question
        self._pool.submit(self._work, question)

    def stop(self) -> None:
        """Begin no further inspection, and end those that are under way without an answer."""
        self._over.set()
        for child in list(self._children):
            _kill(child)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, question: Question) -> None:
        name = question.question
        try:
            self._answer(question.dataset, self.inspect(question))
        except Exception:  # the pool would swallow it; control asks again
            log.exception("dataset.bug", dataset=question.dataset)
        finally:
            with self._lock:
                self._open.pop(name, None)
                self._answered = [*self._answered[-REMEMBERED:], name]

    def inspect(self, question: Question) -> Answer:
        name = question.question
        location = str(question.data.get("location", ""))
        if problem := location_problem(location) or self._isolation.problem_of(location):
            return Answer(name, problem=f"{problem[0].upper()}{problem[1:]}.")
        asked = encode({"recipe": question.recipe, "data": question.data}).encode()
        (self._home / "looks").mkdir(mode=0o711, exist_ok=True)
        with tempfile.TemporaryFile() as complaints, _room(self._home / "looks") as room:
            try:
                child = self._start(complaints, question, room)
            except OSError as error:  # no process or memory to spare
                problem = f"The node could not begin to look: {error.strerror or error}. Check it again."
                return Answer(name, problem=problem)
            with child:
                self._children.add(child)
                if self._over.is_set():  # it was forked while we stopped
                    _kill(child)
                output, is_late = self._read(child, asked)
                self._children.discard(child)
            if is_late:
                problem = f"Looking took more than {self._limit_s:g} s and was ended. Try a smaller part."
                return Answer(name, problem=problem)
            return _answer_from(name, output, child.returncode, complaints)

    def _start(self, complaints: IO[bytes], question: Question, room: Path) -> subprocess.Popen[bytes]:
        project = question.project
        cache = project_cache(self._home, project)
        sandbox = self._isolation.sandbox(project, own=[cache, room])
        environment = {
            **child_variables(),
            # As for a rank: neither the node's own settings nor what its user keeps at home.
            "HOME": str(room),
            "TMPDIR": str(give_name(room, room.name)),
            "TRAINYARD_CACHE": str(cache),
            CLOSED: os.pathsep.join(self._isolation.hidden),
            "TRAINYARD_ATTEMPT": question.question,  # what has no version is fetched anew for each
            SANDBOX: encode(sandbox),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "workers.node.inspection.child", str(os.getpid()), self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=ROOT,
            env=environment,
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
            with contextlib.suppress(BrokenPipeError):  # it died before it read: what it printed, or nothing, says why
                child.stdin.write(asked)
                child.stdin.close()
            output = child.stdout.read(MAX_OUTPUT + 1)
            if len(output) > MAX_OUTPUT:
                _kill(child)
            child.wait()
        finally:
            timer.cancel()
        return output, is_late.is_set()

    def _answer(self, dataset: str, answer: Answer) -> None:
        """Send the answer until the server has taken or refused it: control waits meanwhile."""
        pause_s = FIRST_PAUSE_S
        while not self._over.is_set():
            try:
                self._server.answer_dataset(dataset, answer)
                return
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status == 422 and not answer.problem:
                    words = "What the node found in these files is nothing that can be shown"
                    answer = Answer(answer.question, problem=f"{words}: {error.response.text[:300]}")
                    continue
                if status < 500:  # it asked another node meanwhile, or the dataset was deleted
                    log.info("dataset.not_wanted", dataset=dataset, status=status)
                    return
            except httpx.HTTPError as error:
                log.warning("dataset.not_answered", dataset=dataset, error=str(error))
            self._over.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


@contextlib.contextmanager
def _room(above: Path) -> Iterator[Path]:
    """A folder that a child may write: the temporary folders of Python change modes through links as they go."""
    room = Path(tempfile.mkdtemp(dir=above))
    try:
        yield room
    finally:
        take_name(room, room.name)
        remove_tree(room)


def _answer_from(question: str, output: bytes, returncode: int | None, complaints: IO[bytes]) -> Answer:
    """Return what the child printed as the answer, or why that is none."""
    if len(output) > MAX_OUTPUT:
        problem = "There is more to say of these files than the server takes. Try a smaller part."
        return Answer(question, problem=problem)
    try:
        found = decode(output, Findings)
    except BadDocument:
        found = Findings()
    if found.facts is not None:
        return Answer(question, facts=found.facts)
    return Answer(question, problem=found.problem[:MAX_PROBLEM] or _death(returncode, complaints))


def _death(returncode: int | None, complaints: IO[bytes]) -> str:
    if returncode is not None and returncode < 0:
        why = " Most likely the node ran out of memory." if returncode == -signal.SIGKILL else ""
        return f"Looking was ended by {signal.Signals(-returncode).name}.{why}"
    complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, complaints.tell() - 4_096))
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    return f"Looking failed: {lines[-1][:500]}" if lines else "Looking failed and said nothing of why."


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)

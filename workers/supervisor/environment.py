"""The supervisor's part: finds an attempt's environment on the node, has it built where it is not there, or waits for
who builds it. Nothing here blocks: ``step`` is called several times a second."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from trainyard.contract.base import BadDocument, WireStruct, decode, encode
from trainyard.contract.calls import GivenSecret
from trainyard.contract.orders import Order
from trainyard.contract.reports import Reason
from trainyard.spec.needs import environment_key
from trainyard.spec.sections.environment import EnvironmentSection
from trainyard.spec.values.durations import seconds_of, words_of
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import give_name
from workers.containers.documents import ContainerPlan
from workers.environments.content import BadEnvironment, Content, read_content
from workers.environments.documents import BuildPlan, BuildProgress
from workers.environments.documents import words_of as progress_words
from workers.environments.store import BUILDERS_LOCK, EnvironmentRecord, EnvironmentStore, FileLock, size_of
from workers.machine.passed_variables import passed_variables
from workers.machine.processes import Exit
from workers.sandbox.node import Isolation, hand_over, user_of
from workers.sandbox.process import ROOT
from workers.supervisor.ranks.tracebacks import last_lines

log = structlog.get_logger(__name__)


CODE = "environment"  # of the reason
READ_BYTES = 1 << 16
WAITS = "Waiting for the environment, which another run builds here"
MAX_CHARACTERS = 600  # of an installer's failure
_DECORATION = re.compile(r"^[\s×x│╰─▶├>|-]+(?=\S)|^(error|ERROR|critical|fatal): *", re.IGNORECASE)
_CAUSE = re.compile(r"[:.]? (cause|Caused by): ", re.IGNORECASE)
_BEGINS = re.compile(r"^\s*×|^(error|ERROR|critical|fatal)\b", re.IGNORECASE)
_OURS = re.compile(r"^\$ |ended with exit code \d+$")


class EnvironmentBuild:
    """``python`` is the interpreter of the environment once ``is_ready``; ``problem`` says why there will be none."""

    builder = "workers.environments.builder"

    def __init__(
        self, section: EnvironmentSection, order: Order, folder: AttemptFolder, home: Path, isolation: Isolation
    ) -> None:
        self._section, self._order, self._folder, self._isolation = section, order, folder, isolation
        self._log_path = folder.stream_path(order.first_rank, "build")
        self._deadline = time.monotonic() + seconds_of(section.limit)
        self._builder: subprocess.Popen[bytes] | None = None
        self._progress = -1
        self._rest = b""
        self._last = BuildProgress()
        self._began_at = time.time()
        self.sentence = "Looking for the environment"
        self.problem: Reason | None = None
        self.is_ready = False
        self.secrets: list[GivenSecret] = []  # of the attempt, once they are open
        self._is_over = False  # one of both was returned as news
        self._store = EnvironmentStore(home)
        self._tools = self._store.tools()
        try:
            self._content = self._read()
        except BadEnvironment as error:
            self._content = Content(section, {}, False)
            self._fail(str(error))
        self.place = self._store.place(order.spec.get("project", ""), self._digest())
        self._lock = FileLock(self.place.lock)
        self._builders = FileLock(self.place.folder / BUILDERS_LOCK)

    @property
    def python(self) -> str:
        return str(self.place.python)

    @property
    def shown(self) -> list[Path]:
        """Folders that ranks read."""
        return [self.place.path, self.place.store / "pythons"]

    @property
    def image(self) -> str:
        """The image of a container, as the report names it; empty for none."""
        return ""

    def container_of(self, local_rank: int) -> ContainerPlan | None:
        """Return what starts the rank's container; None where it runs in none."""
        return None

    def step(self) -> bool:
        """Do what can be done without waiting. Returns whether there is news."""
        if self._is_over:
            return False
        before = self.sentence
        if self.problem is None and not self.is_ready:
            self._advance()
        self._is_over = self.problem is not None or self.is_ready
        return self._is_over or self.sentence != before

    def _advance(self) -> None:
        if time.monotonic() > self._deadline:
            if self._builder is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._builder.pid, signal.SIGKILL)
            limit = words_of(seconds_of(self._section.limit))
            self._fail(f"Building took more than {limit} and was ended (environment.limit).")
        elif self._builder is not None:
            self._read_progress()
        elif self._lock.take(alone=True):
            self._use() if self.place.record is not None else self._start()
        elif self._lock.take(alone=False):
            if self.place.record is not None:
                self._use()
            else:
                self._lock.release()
        else:
            self.sentence = WAITS

    def take_exit(self, pid: int, status: int) -> bool:
        """Take in that a child has ended. Returns whether it was the builder."""
        if self._builder is None or self._builder.pid != pid:
            return False
        ending = Exit.of(status)
        self._read_progress()
        self._builder.returncode = -ending.signal if ending.signal else ending.code  # it was reaped by the supervisor
        self._builder = None
        self._close_progress()
        self._builders.release()
        if self.problem is not None:
            return True
        if ending.code == 0:
            self._finish()
        elif ending.signal is not None:
            self._fail(f"The builder was ended by {signal.Signals(ending.signal).name}.")
        else:
            self._fail("", lines=last_lines(self._log_path))
        return True

    def close(self) -> None:
        """Let go of the environment: nobody here uses it any more."""
        self._close_progress()
        self._builders.release()
        self._lock.release()

    def _read(self) -> Content:
        if self._section.kind == "conda" and not self._tools.conda:
            words = "install one there, or take requirements, pyproject or lock."
            raise BadEnvironment(f"This node has no micromamba, mamba or conda, which environment.conda needs: {words}")
        return read_content(self._section, self._folder.code)

    def _digest(self) -> str:
        builder = Path(self._tools.conda).name if self._section.kind == "conda" else self._tools.builder
        return self._content.digest(code=self._code_digest(), builder=builder)

    def _code_digest(self) -> str:
        return self._order.code.sha256 if self._order.code is not None else self._order.attempt

    def _use(self) -> None:
        """Hold the environment together with others who use it."""
        if not self._lock.take(alone=False) or (record := self.place.record) is None:
            return  # somebody came in between: the next step looks again
        self._lock.touch()
        self.is_ready = True
        age = words_of(max(0.0, time.time() - record.built_at))
        own = f"Environment {self.place.digest}, {record.num_packages} packages"
        self._print(f"{own}: built {age} ago" if record.built_at < self._began_at else f"{own}: built")

    def _start(self) -> None:
        """Start the builder, in a process and a sandbox of its own. The caller holds the lock alone."""
        if not self._builders.take(alone=False):
            self._lock.release()  # the project's downloads are being deleted
            return
        plan = self._plan()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            with self._folder.append(self._order.first_rank, "build") as output:
                self._builder = subprocess.Popen(
                    [sys.executable, "-m", self.builder, str(os.getpid()), str(writer)],
                    stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[writer], cwd=ROOT,
                    env=self._environment(), process_group=0,
                )  # fmt: skip
                assert self._builder.stdin is not None
                with self._builder.stdin as stdin:
                    stdin.write(encode(plan).encode())
        except OSError as error:
            os.close(reader)
            self._fail(f"The builder cannot be started: {error.strerror or error}.")
        else:
            self._progress = reader
            self.sentence = progress_words(BuildProgress())
        finally:
            os.close(writer)

    def _environment(self) -> Mapping[str, str]:
        """The order's token is in it, so that a sweep finds the builder of a dead supervisor, too."""
        own = {"TRAINYARD_ATTEMPT": self._order.attempt, "TRAINYARD_NODE": self._order.node_name}
        return {**passed_variables(os.environ), "PATH": os.environ.get("PATH", os.defpath), **own}

    def _plan(self) -> WireStruct:
        section, tools, place = self._section, self._tools, self.place
        if self._isolation.is_other_user:
            hand_over(self._folder.code, user_of(self._order.spec.get("project", "")))
        return BuildPlan(
            kind=section.kind,
            target=str(place.path),
            code=str(self._folder.code),
            store=str(place.store),
            digest=place.digest,
            temporary=str(give_name(self._folder.temporary, self._folder.attempt) / "build"),
            requirements=section.requirements,
            file=section.pyproject or section.lock or section.conda,
            python=section.python,
            interpreter=os.path.realpath(sys.executable),
            inherits=section.inherit,
            needs_code=self._content.needs_code,
            uv=tools.uv,
            conda=tools.conda,
            pip=tools.pip,
            environment={**passed_variables(os.environ), "PATH": os.environ.get("PATH", os.defpath)},
            sandbox=self._isolation.sandbox(
                self._order.spec.get("project", ""),
                own=[place.store, self._folder.temporary],
                shown=[self._folder.code],
            ),
        )

    def _finish(self) -> None:
        last = self._last
        self._record(python=last.python, num_packages=last.total, bytes=size_of(self.place.path))

    def _record(self, **facts: Any) -> None:
        """Write down that it was built to its end, and use it."""
        key, seconds = environment_key(self._order.spec), round(self._last.seconds, 3)
        record = EnvironmentRecord(kind=self._section.kind, key=key, built_at=time.time(), seconds=seconds, **facts)
        self.place.write_record(record)
        self._use()

    def _read_progress(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._progress, READ_BYTES):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    with contextlib.suppress(BadDocument):  # what is built runs code of others in there
                        self._last = decode(line, BuildProgress)
                        self.sentence = progress_words(self._last)[:200]

    def _close_progress(self) -> None:
        if self._progress >= 0:
            os.close(self._progress)
            self._progress = -1

    def _fail(self, sentence: str, lines: list[str] | None = None) -> None:
        node = self._order.node_name
        lines = lines or []
        why = sentence or failure_of(lines) or "the builder failed and said nothing of why."
        self.problem = Reason(
            code=CODE,
            sentence=f"The environment cannot be built on {node}: {why}",
            at=time.time(),
            evidence={"node": node, "log": lines},
        )
        self._print(self.problem.sentence)
        log.info("environment.failed", attempt=self._order.attempt)

    def _print(self, line: str) -> None:
        with contextlib.suppress(OSError), self._folder.append(self._order.first_rank, "build") as output:
            output.write(f"{line}\n".encode())


# Failure of an installer, as one sentence of its own words.


def failure_of(lines: Sequence[str]) -> str:
    """Return the installer's last error among the lines that it printed; empty where there is none."""
    own = [line for line in lines if line.strip() and not _OURS.search(line)]
    starts = [place for place, line in enumerate(own) if _BEGINS.match(line)]
    if not starts:
        return _clipped(own[-1].strip()) if own else ""
    # An error of several lines begins with a sign of its own; pip repeats the word on each line.
    first = starts[-1]
    while first > 0 and first - 1 in starts and not own[first].lstrip().startswith("×"):
        first -= 1
    words = [_DECORATION.sub("", line.strip()) for line in own[first:]]
    return _clipped(_CAUSE.sub(": ", " ".join(" ".join(words).split())))


def _clipped(text: str) -> str:
    text = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    return text if text.endswith((".", "…", "!")) else f"{text}."

"""The forked child that becomes a rank: forgets the supervisor, then runs the recipe or the user's script.

A fork inherits everything, so everything that a fresh interpreter would have is put back, step by step. The end is
our own too: an interpreter that tears down modules under a live process group deadlocks now and then.
"""

import atexit
import contextlib
import errno
import faulthandler
import functools
import os
import random
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from trainyard.contract.base import JsonObject, SpecDocument, encode
from trainyard.contract.calls import GivenSecret
from trainyard.contract.reports import RankError
from trainyard.formats.words import ANSI
from trainyard.spec import read_spec
from trainyard.spec.values.references import expand
from workers.attempt.documents import RankExit, write_document
from workers.attempt.folder import AttemptFolder
from workers.containers.arguments import run_words
from workers.containers.documents import ContainerPlan
from workers.containers.variables import opened_by_user, variables_file, variables_in_container
from workers.machine.processes import die_with_parent, name_process, open_descriptors
from workers.progress.marker import SIZE
from workers.rank_process import fresh_interpreter, notebook
from workers.rank_process.cold_rank import ColdRank, hooked_environment, with_hook
from workers.rank_process.group_formation import C10D, replace_everywhere, watch_group
from workers.rank_process.mpi import MpiWorld, join_world
from workers.rank_process.spark import SparkCluster, join_cluster
from workers.sandbox import cgroups
from workers.sandbox.process import Sandbox, enter
from workers.secrets import masked_text, variables_of
from workers.training.startup.warm import LATER_MODULES

KEPT_S = 1.0  # a thread of gloo that waits for the lock gets it within milliseconds

_kept: list[tuple[float, Any]] = []
MAX_TRACEBACK_CHARACTERS = 20_000
INTERRUPTED = 130
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells end where a program cannot be started
STACK_SIGNAL = signal.SIGRTMIN + 12 if hasattr(signal, "SIGRTMIN") else 0  # at which a rank writes its stacks
OURS = f"{fresh_interpreter.ROOT / 'workers'}{os.sep}"


class RankPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a rank: all that it needs to know. Holds no key and no address of Valkey."""

    rank: int
    path: str  # of the attempt's folder
    spec: SpecDocument
    environment: dict[str, str]
    threads: int
    python: str = ""  # the interpreter to start cold with; empty is this one, which is warm
    note: str = ""  # the first line of its log
    variables: dict[str, str] = {}  # what the arguments and the command may name
    sandbox: Sandbox = Sandbox()
    container: ContainerPlan | None = None  # in which it runs, beside no sandbox of ours
    secrets: list[GivenSecret] = []  # beside the environment, which sessions beside the rank get too
    mpi: MpiWorld | None = None  # to which it belongs; it is cold
    spark: SparkCluster | None = None  # the same

    @property
    def is_cold(self) -> bool:
        return bool(self.python or self.task.get("command"))  # a notebook names its interpreter

    @property
    def folder(self) -> AttemptFolder:
        return AttemptFolder(Path(self.path))

    @property
    def arguments(self) -> list[str]:
        """The script's words, with its variables in them. Raises ValueError for one that it does not have."""
        return [expand(str(word), self.variables or self.environment) for word in self.task.get("arguments") or []]

    @property
    def command_line(self) -> list[str]:
        """Return the words that a cold rank executes. Raises ValueError as ``arguments`` does."""
        task = self.task
        if task.get("command"):
            words = task["command"]
            return [*(expand(str(word), self.variables or self.environment) for word in words), *self.arguments]
        if task.get("notebook"):
            return [self.python, *notebook.words_of(self.spec, self.variables, self.folder.output)]
        if task.get("module"):
            return [self.python, "-m", str(task["module"]), *self.arguments]
        return [self.python, str(self.folder.code / task["script"]), *self.arguments]

    @property
    def task(self) -> JsonObject:
        task: JsonObject = self.spec["task"]
        return task


def become_rank(plan: RankPlan, parent: int, output: tuple[int, ...] = ()) -> NoReturn:
    """Turn this freshly forked child into the rank. Never returns. ``output``: pipes for stdout and stderr, in place of
    files."""
    code, own_pid = 1, os.getpid()
    try:
        die_with_parent(signal.SIGKILL, parent)
        name_process(f"ty-rank-{plan.rank}")
        _reset_signals()
        if plan.container is not None:
            _start_container(plan, plan.container, parent, output)
        enter(plan.sandbox)  # before the rank makes its first file, which belongs to its user
        die_with_parent(signal.SIGKILL, parent)  # a change of user resets the signal
        _reset_descriptors(plan, output)
        plan = _with_secrets(plan)
        _reset_environment(plan)
        if plan.note:
            os.write(2, f"{plan.note}\n".encode())
        if plan.is_cold:
            _start_cold(plan)
        _reset_randomness(plan.threads)
        code = _exit_code_of(lambda: _run(plan), plan)
        with contextlib.suppress(KeyboardInterrupt):
            threading._shutdown()  # type: ignore[attr-defined]  # waits for the script's threads, as Python does
        if os.getpid() == own_pid:  # a script's own fork comes here too
            with contextlib.suppress(OSError):
                plan.folder.exit_path(plan.rank).write_text(encode(RankExit(code)))
            _record_imports(plan)
        atexit._run_exitfuncs()
        fresh_interpreter.flush_files()
    except BaseException as error:
        _report_error(error, plan)
        code = code or 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if code == INTERRUPTED:  # by Ctrl-C's signal, and so Python ends too
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code & 0xFF)


def _run(plan: RankPlan) -> None:
    if "recipe" in plan.task:
        from workers.training.main import main  # heavy: torch

        main(read_spec(plan.spec))
    else:
        keep_destroyed_groups()
        watch_group(plan.folder.joining_path(plan.rank), plan.folder.joined_path(plan.rank))
        if plan.task.get("module"):
            run_module(str(plan.task["module"]), plan)
        else:
            run_script(Path.cwd() / plan.task["script"], plan)


def run_script(path: Path, plan: RankPlan) -> None:
    """Execute the script as ``python path arguments`` would, in a ``__main__`` that outlives it.

    ``runpy`` drops the globals when the script ends; objects that a process group still calls went with them.
    """
    fresh_interpreter.reset_imported_state(Path.cwd())
    main = fresh_interpreter.new_main(path, plan.arguments)
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    fresh_interpreter.set_path(path.resolve().parent, plan.environment, Path.cwd(), plan.folder.sdk)
    _shadow(plan)
    exec(code, main.__dict__)


def run_module(name: str, plan: RankPlan) -> None:
    """Execute the module as ``python -m name arguments`` would, with the function that Python itself calls for it."""
    fresh_interpreter.reset_imported_state(Path.cwd())
    fresh_interpreter.new_main_of_module(name, plan.arguments)
    fresh_interpreter.set_path(Path.cwd(), plan.environment, Path.cwd(), plan.folder.sdk)
    _shadow(plan)
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # no public one leaves __main__ alive


def _shadow(plan: RankPlan) -> None:
    """Do what the hook does as a fresh interpreter begins."""
    if plan.task.get("shadow"):
        from trainyard.shadow.hook import sitecustomize

        sitecustomize.leave_path()
        sitecustomize.install()


def _exit_code_of(run: Callable[[], None], plan: RankPlan) -> int:
    """Run it and return the code with which Python would exit."""
    try:
        run()
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return (ending.code or 0) & 0xFF
        print(ending.code, file=sys.stderr)
        return 1
    except BaseException as error:
        _report_error(error, plan)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _report_error(error: BaseException, plan: RankPlan) -> None:
    """Print the traceback from the user's own frames on, and leave it for the report."""
    text = fresh_interpreter.print_error(error, (__file__,) if "recipe" in plan.task else (OURS,))
    values = [one.value for one in plan.secrets]
    found = RankError(
        type=type(error).__name__,
        message=ANSI.sub("", masked_text(str(error), values))[:2000],
        traceback=ANSI.sub("", masked_text(text, values))[-MAX_TRACEBACK_CHARACTERS:],
    )
    with contextlib.suppress(OSError):
        write_document(plan.folder.error_path(plan.rank), found)


def _record_imports(plan: RankPlan) -> None:
    """Mark what the warm process shall import for the ranks to come."""
    for name in LATER_MODULES:
        if name in sys.modules:
            with contextlib.suppress(OSError):
                plan.folder.imported_path(name).touch()


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not None:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _reset_descriptors(plan: RankPlan, output: tuple[int, ...]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in ((1, "stdout"), (2, "stderr")):
        target = output[number - 1] if output else os.open(plan.folder.stream_path(plan.rank, stream), flags, 0o600)
        os.dup2(target, number)
    os.closerange(3, max(open_descriptors()) + 1)
    if plan.environment.get("PYTHONFAULTHANDLER"):  # Python itself looks at it only as it starts
        faulthandler.enable(2)
    if STACK_SIGNAL:
        faulthandler.register(STACK_SIGNAL, file=2)
    fresh_interpreter.renew_streams()


def _with_secrets(plan: RankPlan) -> RankPlan:
    """Return the plan with its secrets among the variables. Arguments do not name them: others see a command line."""
    if not plan.secrets:
        return plan
    environment = {**plan.environment, **variables_of(plan.secrets)}
    return msgspec.structs.replace(plan, variables=plan.variables or plan.environment, environment=environment)


def _reset_environment(plan: RankPlan) -> None:
    os.environ.clear()
    os.environ.update(plan.environment)
    os.umask(0o077)
    os.chdir(plan.folder.code)


def _reset_randomness(threads: int) -> None:
    """Reseed: else all ranks of all attempts would draw the zygote's numbers."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()
        torch.set_num_threads(threads)  # OMP_NUM_THREADS has no effect after the fork


def _start_cold(plan: RankPlan) -> NoReturn:
    """Become an interpreter of the script's own, or the program of a command. The parent-death signal and the fence
    stay."""
    words, environment = plan.command_line, plan.environment
    if plan.mpi is not None:
        environment = {**environment, **join_world(plan.mpi, plan.rank)}
    if plan.spark is not None:
        environment = join_cluster(plan.spark, plan.rank, environment, plan.folder)
    if plan.task.get("notebook"):
        environment = notebook.prepare(environment, Path.cwd(), plan.folder.output)
    if not plan.task.get("command"):  # it begins with an interpreter
        marks = plan.folder.marks_path(plan.rank)
        environment = hooked_environment(environment, marks=marks, code=Path.cwd(), signal=STACK_SIGNAL)
    try:
        os.execvpe(words[0], words, {**environment, "PYTHONUNBUFFERED": "1"})
    except OSError as error:
        if not plan.task.get("command"):
            raise
        os.write(2, f"Trainyard: {_why_not_started(words[0], error, plan)}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _start_container(plan: RankPlan, container: ContainerPlan, parent: int, output: tuple[int, ...]) -> NoReturn:
    """Become Podman, which runs the rank in its container, hands its signals on and ends as it does."""
    _reset_descriptors(plan, output or _streams_of(plan, container.user))
    os.umask(0o077)
    if container.cgroup and container.runtime.joins_groups:
        cgroups.join(Path(container.cgroup))
    try:
        environment = {**plan.environment, **variables_in_container(plan.secrets, container)}
        if not plan.task.get("command"):
            environment = _with_hook(plan, container.user, environment)
        file = variables_file({**environment, "PYTHONUNBUFFERED": "1"})
        words = run_words(container, plan.command_line, variables=file, pid_file=str(plan.folder.pid_path(plan.rank)))
        os.chdir("/")
        die_with_parent(signal.SIGKILL, parent)  # a change of user reset the signal
        os.execve(words[0], words, container.environment)
    except (OSError, ValueError) as error:
        os.write(2, f"Trainyard: {error}\n".encode())
    os._exit(NOT_EXECUTABLE)


def _streams_of(plan: RankPlan, user: int) -> tuple[int, ...]:
    """Open stdout and stderr as the rank's user would: a link that another rank left leads root nowhere."""
    paths = [plan.folder.stream_path(plan.rank, stream) for stream in ("stdout", "stderr")]
    return tuple(opened_by_user(path, user, os.O_WRONLY | os.O_APPEND) for path in paths)


def _with_hook(plan: RankPlan, user: int, environment: dict[str, str]) -> dict[str, str]:
    marks = plan.folder.marks_path(plan.rank)
    with contextlib.suppress(OSError):
        descriptor = opened_by_user(marks, user, os.O_WRONLY | os.O_EXCL)
        os.write(descriptor, bytes(SIZE))
        os.close(descriptor)
        hook = ColdRank(pid=0, signal=STACK_SIGNAL, marks=str(marks), code=str(plan.folder.code))
        return with_hook(environment, hook)
    return environment


def _why_not_started(program: str, error: OSError, plan: RankPlan) -> str:
    if isinstance(error, FileNotFoundError) and "/" not in program:
        return f"there is no program {program} on this rank's PATH ({plan.environment.get('PATH', '')[:200]})."
    if isinstance(error, FileNotFoundError):
        return f"{program} cannot be started: it is not there, or the interpreter that its first line names is not."
    if error.errno == errno.ENOEXEC:
        return f"{program} cannot be started: it is no program, and its first line names no interpreter (#!/bin/sh)."
    return f"{program} cannot be started: {error.strerror}."


# Keeps a process group that a script has destroyed until its end can no longer deadlock.
#
# torch 2.13 ends gloo's threads in the destructor of the group. Where a DistributedDataParallel is the last to hold
# the group, that destructor runs with the interpreter's lock held. One of those threads may wait for the lock at that
# moment: the work of the last backward pass carries a Python object (``contextvars``, see ``torch.autograd.graph``),
# which the thread is about to release. Each then waits for the other. A warm rank has ``torch._dynamo`` imported and
# comes from its last step to its end fast enough to meet this in one of four runs; a cold one rarely does.
#
# A group that we hold too is not ended with the model. When we release it, it ends without the lock, as in torch's
# own binding.


def keep_destroyed_groups() -> None:
    """Let ``destroy_process_group`` leave its groups with us. The next call releases those that are KEPT_S old."""
    module = sys.modules.get(C10D)
    if module is None:
        return
    original = module.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*arguments: Any, **named: Any) -> Any:
        now = time.monotonic()
        groups = [(now, group) for group in module._world.pg_map]
        answer = original(*arguments, **named)
        _kept[:] = [one for one in _kept if now - one[0] < KEPT_S] + groups
        return answer

    replace_everywhere(original, destroy_process_group)

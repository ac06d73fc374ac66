"""The command of a session: forked, put into the sandbox of its rank, and started."""

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from workers.containers.arguments import exec_words
from workers.containers.documents import ContainerPlan
from workers.containers.variables import variables_file
from workers.interactive.request import SESSION, RelayRequest
from workers.machine.processes import die_with_parent, open_descriptors
from workers.sandbox.namespaces import inside_of
from workers.sandbox.process import enter

NOT_FOUND, NOT_STARTED = 127, 126
CONTAINER_SHELL = "/bin/sh"  # which of them an image has is not known here
SHELLS = (("bash", "--norc"), ("sh",))  # the user of a rank has no name, which the machine's prompt would show


class Child(NamedTuple):
    """A started command, and our ends of what it reads and writes. A terminal is one for all three."""

    pid: int
    input: int | None
    output: int
    errors: int | None


def start(request: RelayRequest) -> Child:
    """Start the command. Call it while this process has one thread and knows no key."""
    with inside_of(request.sandbox.holder if request.container is None else 0):
        ours, theirs = _terminal(request) if request.order.terminal else _pipes(request)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(request, parent, theirs)
    for descriptor in set(theirs):
        os.close(descriptor)
    return Child(pid, *ours)


def set_size(terminal: int, rows: int, columns: int) -> None:
    with contextlib.suppress(OSError):  # the command has ended
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def words_of(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words of the command, a shell where there are none. A word that is nothing but ``$NAME`` or
    ``${NAME}`` of the rank is replaced: the shell in front of the person does not know these."""
    if not command:
        path = environment.get("PATH", os.defpath)
        return next(([shell, *words] for shell, *words in SHELLS if shutil.which(shell, path=path)), ["/bin/sh"])
    return [_replaced(word, environment) for word in command]


def _replaced(word: str, environment: Mapping[str, str]) -> str:
    name = word[2:-1] if word.startswith("${") and word.endswith("}") else word[1:]
    return environment.get(name, word) if word.startswith("$") else word


def _terminal(request: RelayRequest) -> tuple[tuple[int, int, None], tuple[int, int, int]]:
    """Return our ends of what the command reads and writes, and its own."""
    ours, theirs = os.openpty()
    set_size(ours, request.order.rows, request.order.columns)
    if request.sandbox.mechanism.is_other_user:
        os.fchown(theirs, request.sandbox.user, request.sandbox.user)
    return (os.dup(ours), ours, None), (theirs, theirs, theirs)


def _pipes(request: RelayRequest) -> tuple[tuple[int | None, int, int], tuple[int, int, int]]:
    their_input, our_input = os.pipe() if request.order.input else (os.open(os.devnull, os.O_RDONLY), None)
    our_output, their_output = os.pipe()
    our_errors, their_errors = os.pipe()
    return (our_input, our_output, our_errors), (their_input, their_output, their_errors)


def _become(request: RelayRequest, parent: int, streams: tuple[int, int, int]) -> NoReturn:
    code, problem = NOT_STARTED, ""
    try:
        os.setsid()
        die_with_parent(signal.SIGKILL, parent)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        if request.order.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.closerange(3, max(open_descriptors(), default=2) + 1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if request.container is not None:
            problem = "podman"
            _become_podman(request, request.container)
        enter(request.sandbox)
        die_with_parent(signal.SIGKILL, parent)  # a change of user resets the signal
        os.umask(0o077)
        os.chdir(request.folder)
        environment = _environment_of(request)
        words = words_of(request.order.command, environment)
        problem = words[0]
        os.execvpe(words[0], words, environment)
    except FileNotFoundError as error:
        code = NOT_FOUND
        problem = f"{problem or error.filename}: not found on this node"
    except OSError as error:
        problem = f"{problem}: {error.strerror or error}"
    except BaseException as error:
        problem = f"{problem}: {type(error).__name__}"
    finally:
        with contextlib.suppress(OSError):
            os.write(2, f"trainyard: {problem}\n".encode())
        os._exit(code)


def _environment_of(request: RelayRequest) -> dict[str, str]:
    environment = {**request.environment, SESSION: request.order.session}
    if request.order.terminal:  # the shell of an image is often a plain sh, which knows no \W in its prompt
        environment |= {"TERM": "xterm-256color", "PS1": f"[rank {request.order.rank}] ${{PWD##*/}}\\$ "}
    return environment


def _become_podman(request: RelayRequest, container: ContainerPlan) -> NoReturn:
    environment = _environment_of(request)
    command = [_replaced(word, environment) for word in request.order.command] or [CONTAINER_SHELL]
    words = exec_words(container, command, variables=variables_file(environment), is_terminal=request.order.terminal)
    os.chdir("/")
    os.execve(words[0], words, container.environment)

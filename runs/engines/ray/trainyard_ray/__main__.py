"""``python -m trainyard_ray ADDRESS``: answer calls of the standard input, one line each, until its end."""

from __future__ import annotations

import logging
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from .documents import NAMESPACE, SILENT, Call, JobReport, RayAnswer, text_of

IDLE_S = 300.0  # after which nobody asks any more
CONNECT_S = 5.0
CLIENT = "ray://"
HEAD = "node:__internal_head__"  # a resource that only the machine of Ray's head has
MAX_WORDS = 600
_known: dict[str, JobReport] = {}  # what was last reported of each job


def main() -> int:
    address = sys.argv[1]
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # what libraries print is no answer
    first = connected(address)
    send(answers, first)
    if first.problem:
        return 1
    for line in lines_of(sys.stdin.buffer.fileno()):
        send(answers, answer(Call.read(line), is_client=address.startswith(CLIENT)))
    return 0


def send(answers: BinaryIO, document: RayAnswer) -> None:
    answers.write(text_of(document).encode() + b"\n")


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield lines until the input ends or nobody has written for long."""
    read = b""
    while select.select([descriptor], [], [], IDLE_S)[0]:
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return
        *lines, read = (read + piece).split(b"\n")
        yield from lines


def connected(address: str) -> RayAnswer:
    try:
        import ray
        from ray import cloudpickle
    except ImportError as error:
        return RayAnswer(problem=f"{sys.executable} has no Ray ({error})", kind="no-library")
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        return RayAnswer(problem=f"{error.strerror or error}", kind="away")
    from . import attempt, documents, machine, trial
    from . import survey as surveys

    for module in (attempt, documents, machine, surveys, trial):  # Ray's machines need not have them
        cloudpickle.register_pickle_by_value(module)
    os.chdir("/")
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # its library raises a dozen kinds; the words say which
        return RayAnswer(problem=" ".join(str(error).split())[:MAX_WORDS], kind="away")
    return RayAnswer(version=ray.__version__)


def answer(call: Call, *, is_client: bool) -> RayAnswer:
    from ray.exceptions import RayError

    try:
        return VERBS[call.verb](call, is_client)
    except (RayError, ConnectionError, RuntimeError) as error:
        return RayAnswer(problem=" ".join(str(error).split())[:MAX_WORDS], kind="away")


def survey(call: Call, is_client: bool) -> RayAnswer:
    from .survey import survey as there

    found = RayAnswer.read(ask(there, call.prefix, call.limit_s, is_client=is_client, limit_s=call.limit_s))
    for place, job in enumerate(found.jobs):
        if job.state == SILENT:  # a busy actor is what it was
            found.jobs[place] = _known.get(job.job, job)
        else:
            _known[job.job] = job
    for name in _known.keys() - {job.job for job in found.jobs}:
        del _known[name]
    return found


def find(call: Call, is_client: bool) -> RayAnswer:
    from .survey import find as there

    return RayAnswer.read(ask(there, call.job, is_client=is_client, limit_s=call.limit_s))


def ask(function: Callable[..., str], *words: str | float, is_client: bool, limit_s: float) -> str:
    """Call the function, or have a machine of Ray call it: the client knows only some of Ray's functions."""
    import ray

    if not is_client:
        return function(*words)
    answered: str = ray.get(ray.remote(num_cpus=0, max_retries=0)(function).remote(*words), timeout=limit_s)
    return answered


def submit(call: Call, is_client: bool) -> RayAnswer:
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError

    from .attempt import AttemptMachines

    assert call.request is not None
    actor = (
        ray.remote(AttemptMachines)
        .options(
            name=call.job, lifetime="detached", get_if_exists=True, num_cpus=0, max_restarts=0, resources={HEAD: 0.001}
        )
        .remote(text_of(call.request))
    )
    try:
        ray.get(actor.report.remote(), timeout=call.limit_s)
    except GetTimeoutError:  # it has the name by now, and is found under it
        return RayAnswer()
    except RayActorError as error:
        return RayAnswer(problem=" ".join(str(error).split())[-MAX_WORDS:], kind="refused")
    return RayAnswer()


def cancel(call: Call, is_client: bool) -> RayAnswer:
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError

    try:
        actor = ray.get_actor(call.job, namespace=NAMESPACE)
    except ValueError:
        return RayAnswer()
    try:
        if ray.get(actor.stop.remote(), timeout=call.limit_s):
            ray.kill(actor, no_restart=True)
    except GetTimeoutError:  # it never started, or hangs: its machines end with it
        ray.kill(actor, no_restart=True)
    except RayActorError:
        pass
    return RayAnswer()


def try_machines(call: Call, is_client: bool) -> RayAnswer:
    from .trial import try_machines as try_there

    assert call.request is not None
    return try_there(call.request, call.limit_s)


VERBS = {"survey": survey, "find": find, "submit": submit, "cancel": cancel, "try": try_machines}

if __name__ == "__main__":
    sys.exit(main())

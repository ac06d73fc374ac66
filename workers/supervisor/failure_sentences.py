"""Reasons why an attempt ended on a node, for its report. The sentences are made in ``trainyard.failures``."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.causes import HangFinding
from trainyard.contract.orders import Order
from trainyard.contract.reports import RankError, RankEvidence, Reason
from trainyard.failures.ranks import SENTENCES, ending_sentence, explain_rank
from workers.attempt.folder import AttemptFolder
from workers.supervisor.ranks.tracebacks import last_lines, own_frame

if TYPE_CHECKING:
    from workers.supervisor.ranks.state import RankState

NO_VARIABLE = re.compile(r"\b(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|LOCAL_WORLD_SIZE)\b")
NO_PROCESS = re.compile(r"Errno 11\b.*Resource temporarily unavailable|can't start new thread")
UNINITIALISED = "Default process group has not been initialized"

STOPPED_BEFORE_START = "The run was asked to stop before anything of it had started here."
NEWER_ATTEMPT = "A newer attempt of this run is here already."


def reason_of(
    order: Order,
    ranks: "Sequence[RankState]",
    cause: str | None,
    folder: AttemptFolder,
    hang: HangFinding | None = None,
    *,
    is_disk_full: bool = False,
) -> Reason | None:
    """Return why the attempt ended here: None when every rank ended with 0. ``hang``: what the server found.

    A failure that came before anybody asked for the end is the reason, whatever followed from it.
    """
    if cause == "hang" and hang is not None:
        return Reason(code=hang.code, sentence=hang.sentence, evidence={**hang.evidence(), **_disk(is_disk_full)})
    if cause in SENTENCES:
        sentence = ending_sentence(cause, order.node_name, lease_s=order.lease_s)
        sentence += f" The disk of {order.node_name} was full." if is_disk_full else ""
        return Reason(code=cause, sentence=sentence, evidence={"node": order.node_name, **_disk(is_disk_full)})
    # A rank that only felt another's end comes behind it. Both may be found dead at once.
    failed = [rank for rank in ranks if rank.has_failed]
    first = min(failed, key=lambda rank: (explain_rank(rank, "").standing, rank.ended_at or 0.0), default=None)
    return _reason_of_rank(order, first, folder, is_disk_full=is_disk_full) if first is not None else None


def _reason_of_rank(order: Order, rank: "RankState", folder: AttemptFolder, *, is_disk_full: bool) -> Reason:
    stderr = last_lines(folder.stream_path(rank.rank, "stderr"))
    evidence = RankEvidence(
        node=order.node_name,
        rank=rank.rank,
        exit_code=rank.exit_code,
        signal=rank.signal,
        error=rank.error,
        stderr=stderr,
        stdout=last_lines(folder.stream_path(rank.rank, "stdout")),
    )
    known = to_builtins(evidence)
    del known["disk_full"]
    failure = explain_rank(rank, order.node_name, stderr=stderr, is_disk_full=is_disk_full)
    code = "rank_killed" if rank.signal else "rank_failed"
    return Reason(code=code, sentence=failure.sentence, evidence={**known, **_disk(is_disk_full)})


def _disk(is_full: bool) -> JsonObject:
    return {"disk_full": True} if is_full else {}


def explained(
    error: RankError, code: Path, *, has_joined: bool, has_no_torchrun: bool = False, user: int = -1
) -> RankError:
    """Return the error with a message that names the place in the user's ``code``, where a process group was missing.

    ``has_joined``: there had been a process group. ``has_no_torchrun``: the rank got none of torchrun's variables; an
    error about a missing one says where they come from. ``user``: the Unix user that the ranks are where it is another
    than the node's, as PermissionError says then. Any other error is returned as it is.
    """
    message = str(error.message)
    if user >= 0 and error.type == "PermissionError" and message:
        why = f"the ranks of this project are Unix user {user} here, to whom it must be open (docs/isolation_disk.md)"
        return msgspec.structs.replace(error, message=f"{message.splitlines()[0]}; {why}.")
    if has_no_torchrun and NO_VARIABLE.search(message):
        why = "the only process of a run has torchrun's variables where task.distributed is true"
        return msgspec.structs.replace(error, message=f"{message.splitlines()[0]}; {why}.")
    if NO_PROCESS.search(message):
        why = "the ranks of its project have as many processes and threads as this node lets them (docs/isolation.md)"
        return msgspec.structs.replace(error, message=f"{message.splitlines()[0]}: {why}.")
    if UNINITIALISED not in message or (place := own_frame(str(error.traceback), code)) is None:
        return error
    file, line, source = place
    what = f"{file} line {line}: {source} needs a process group" if source else f"{file} line {line}"
    why = (
        "it was destroyed before: call torch.distributed.destroy_process_group() behind the last collective."
        if has_joined
        else "the process group was never initialised: call torch.distributed.init_process_group() before it."
    )
    return msgspec.structs.replace(error, message=f"{what}, and {why}" if source else f"{what}: {why}")

"""Why an attempt ended on a node: reasons, and the sentences that people read of a rank's failure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainyard.contract.base import to_builtins
from trainyard.contract.causes import HangFinding
from trainyard.contract.orders import Order
from trainyard.contract.reports import RankError, RankEvidence, Reason
from trainyard.lost_peers import is_of_lost_peer, lost_peer_sentence
from workers.attempt.folder import AttemptFolder
from workers.supervisor.ranks.tracebacks import last_lines, own_frame

if TYPE_CHECKING:
    from workers.supervisor.ranks.state import RankState

NO_VARIABLE = re.compile(r"\b(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|LOCAL_WORLD_SIZE)\b")
UNINITIALISED = "Default process group has not been initialized"

# Why a supervisor ends its ranks, when it is not their own doing.
CAUSES = {
    "stopped": "The run was asked to stop.",
    "interrupted": "Trainyard was stopped on {node} while the run was going on.",
    "lease_expired": "{node} heard nothing from the server for {lease:g} s and ended its ranks, so that no second "
    "attempt meets them.",
    "folder_deleted": "The folder of this run on {node} was deleted while it trained. {node} ended its ranks; what "
    "they had not sent by then is lost.",
    "stale_fence": "A newer attempt of this run exists; {node} ended this one.",
}
STOPPED_BEFORE_START = "The run was asked to stop before anything of it had started here."
NEWER_ATTEMPT = "A newer attempt of this run is here already."


def reason_of(
    order: Order,
    ranks: Sequence[RankState],
    cause: str | None,
    folder: AttemptFolder,
    hang: HangFinding | None = None,
) -> Reason | None:
    """Return why the attempt ended here: None when every rank ended with 0. ``hang``: what the server found.

    A failure that came before anybody asked for the end is the reason, whatever followed from it.
    """
    if cause == "hang" and hang is not None:
        return Reason(code=hang.code, sentence=hang.sentence, evidence=hang.evidence())
    if cause in CAUSES:
        sentence = CAUSES[cause].format(node=order.node_name, lease=order.lease_s)
        return Reason(code=cause, sentence=sentence, evidence={"node": order.node_name})
    failed = sorted((rank for rank in ranks if rank.has_failed), key=lambda rank: rank.order_of_failing())
    return reason_of_rank(order, failed[0], folder) if failed else None


def reason_of_rank(order: Order, rank: RankState, folder: AttemptFolder) -> Reason:
    code, sentence = _failure(rank, f"Rank {rank.rank} on {order.node_name}")
    evidence = RankEvidence(
        node=order.node_name,
        rank=rank.rank,
        exit_code=rank.exit_code,
        signal=rank.signal,
        error=rank.error,
        stderr=last_lines(folder.stream_path(rank.rank, "stderr")),
        stdout=last_lines(folder.stream_path(rank.rank, "stdout")),
    )
    known = to_builtins(evidence)
    del known["disk_full"]  # the supervisor adds it where it is true
    return Reason(code=code, sentence=sentence, evidence=known)


def _failure(rank: RankState, who: str) -> tuple[str, str]:
    """Return the reason's code and sentence."""
    if rank.signal is not None:
        return "rank_killed", f"{who} was ended by {signal_name(rank.signal)}."
    if rank.error is None:
        return "rank_failed", f"{who} ended with exit code {rank.exit_code}."
    error = msgspec.structs.asdict(rank.error)
    if is_of_lost_peer(error):
        return "rank_failed", lost_peer_sentence(who, error)
    what = f"{rank.error.type}: {rank.error.message}".rstrip(": ").split("\n")[0][:300]
    return "rank_failed", f"{who} raised {what}"


def killed_sentence(who: str, node: str) -> str:
    """``who``: the process whose end took the ranks with it."""
    return f"The {who} on {node} was killed; its ranks ended with it."


def full_disk_sentence(node: str) -> str:
    return f" The disk of {node} was full."


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def explained(error: RankError, code: Path, *, has_joined: bool, has_no_torchrun: bool = False) -> RankError:
    """Return the error with a message that names the place in the user's ``code``, where a process group was missing.

    ``has_joined``: there had been a process group. ``has_no_torchrun``: the rank got none of torchrun's variables; an
    error about a missing one says where they come from. Any other error is returned as it is.
    """
    message = str(error.message)
    if has_no_torchrun and NO_VARIABLE.search(message):
        why = "the only process of a run has torchrun's variables where task.distributed is true"
        return msgspec.structs.replace(error, message=f"{message.splitlines()[0]}; {why}.")
    if UNINITIALISED not in message:
        return error
    place = own_frame(str(error.traceback), code)
    if place is None:
        return error
    file, line, source = place
    what = f"{file} line {line}: {source} needs a process group" if source else f"{file} line {line}"
    why = (
        "it was destroyed before: call torch.distributed.destroy_process_group() behind the last collective."
        if has_joined
        else "the process group was never initialised: call torch.distributed.init_process_group() before it."
    )
    return msgspec.structs.replace(error, message=f"{what}, and {why}" if source else f"{what}: {why}")

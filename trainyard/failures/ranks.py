"""Failures of a rank: sentences about them, with the words of `signs.py`. Nodes use it where the server is away."""

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from trainyard.contract.causes import CauseClass
from trainyard.contract.reports import RankError, RankReport
from trainyard.failures.signs import RAYS, FoundSign, Standing, find_sign, shortened
from trainyard.formats.figures import size

DATA_PROBLEMS = {  # of workers.training.data.problems
    "DataProblem": CauseClass.DATA_PROBLEM,
    "NodeDataProblem": CauseClass.NODE_UNFIT,
    "OthersDataProblem": CauseClass.DATA_PROBLEM,
}
MISSING_FILE = ("FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError")
SHELL_SIGNALS = range(129, 160)  # a shell's exit code is 128 and the signal that ended its child
# The innermost line of a traceback: a signal's handler would stand there otherwise, or the line that it interrupted.
RAISED_INTERRUPT = re.compile(
    r"^{0} +raise KeyboardInterrupt\b.*\n(?:{0}[ ^~]*\n)?{0}KeyboardInterrupt".format(r"(?:\[rank\d+\]: ?)?"), re.M
)
REFUSED_WORDS = 2  # with which argparse ends
REFUSAL = re.compile(r"(?:\S.*: error|Error): \S")
MAX_MESSAGE, MAX_DATA_MESSAGE = 300, 1_000
CUT_OFF = (
    "had come to the end of its script and did not exit: for a minute it did nothing, and no child of it lived. It was "
    "ended, and what its exit functions (atexit) still had to do is lost."
)
# What a rank of a recipe writes to stderr that ends by SIGTERM since all ranks agreed on it, and got none itself.
STOPPED_WITH_ANOTHER = "Another rank was asked to stop (SIGTERM), and this one stopped with it."


class RankFailure(NamedTuple):
    cause_class: CauseClass
    sentence: str
    standing: Standing


def is_clean(rank: RankReport) -> bool:
    """Success needs proof: an exit code of 0, not the lack of another."""
    return rank.exit_code == 0 and not rank.signal and rank.error is None


def explain_rank(rank: RankReport, node: str, *, stderr: Sequence[str] = (), is_disk_full: bool = False) -> RankFailure:
    """Return class, sentence and standing of a rank that failed. ``stderr``: its last lines, where they are known."""
    who = f"Rank {rank.rank} on {node}{', whose disk was full,' if is_disk_full else ''}"
    if rank.was_ended:
        return RankFailure(CauseClass.UNKNOWN, f"Rank {rank.rank} on {node} was ended by its node.", Standing.ENDED)
    failure = _explain(rank, who, stderr)
    if is_disk_full and failure.cause_class in (CauseClass.USER_ERROR, CauseClass.STORAGE):
        return failure._replace(cause_class=CauseClass.DISK_FULL)
    return failure


def _explain(rank: RankReport, who: str, stderr: Sequence[str]) -> RankFailure:
    if rank.exit_hang and rank.signal:
        return RankFailure(CauseClass.USER_ERROR, f"{who} {CUT_OFF}", Standing.OWN)
    if rank.oom_killed and rank.signal == signal.SIGKILL:
        sentence = f"{who} was killed by the kernel, since memory ran out (SIGKILL)."
        if limit := rank.memory_limit_bytes:
            sentence = (
                f"{who} was killed by the kernel (SIGKILL): the ranks of this run there took all of the {size(limit)} "
                "that their control group allows (memory.max)."
            )
        return RankFailure(CauseClass.OUT_OF_MEMORY, sentence, Standing.OWN)
    if RAISED_INTERRUPT.search((rank.error and rank.error.traceback) or "\n".join(stderr)):
        return RankFailure(CauseClass.USER_ERROR, f"{who} raised KeyboardInterrupt in its own code.", Standing.OWN)
    if rank.signal:
        return _of_signal(rank.signal, who, stderr)
    if rank.error is not None:
        return _of_error(rank.error, who, is_oom=rank.oom_killed)
    if found := find_sign("\n".join(stderr)):
        return _of_sign(found, who)
    code = rank.exit_code or 0
    if code in SHELL_SIGNALS:
        sentence = f"{who} ended with exit code {code}, as after {signal_name(code - 128)}."
        return RankFailure(CauseClass.KILLED, sentence, Standing.OWN)
    why = _refused_words(stderr) if code == REFUSED_WORDS else _last_words(stderr) if code == 1 else ""
    return RankFailure(CauseClass.USER_ERROR, f"{who} ended with exit code {rank.exit_code}{why}.", Standing.OWN)


def _refused_words(stderr: Sequence[str]) -> str:
    """Return what argparse, or click, wrote last of the words of the command line that it refused."""
    last = _last_words(stderr)
    return last if REFUSAL.match(last.removeprefix(": ")) else ""


def _last_words(stderr: Sequence[str]) -> str:
    """Return what it wrote last: ``sys.exit("why")`` writes that, and ends with 1."""
    last = next((line.strip() for line in reversed(stderr) if line.strip() and not RAYS.match(line)), "")
    return f": {last[:MAX_MESSAGE].rstrip('. ')}" if last else ""


def _of_signal(number: int, who: str, stderr: Sequence[str]) -> RankFailure:
    ours = [line for line in stderr if number == signal.SIGKILL and "Trainyard: Spark's " in line]  # then we ended it
    # C++ ends with SIGABRT, and prints why.
    if (ours or number == signal.SIGABRT) and (found := find_sign("\n".join(ours or stderr))):
        return _of_sign(found, who)
    if number == signal.SIGTERM and any(STOPPED_WITH_ANOTHER in line for line in stderr):
        sentence = f"{who} stopped with another rank that got SIGTERM (15)."
        return RankFailure(CauseClass.KILLED, sentence, Standing.WAITED)
    return RankFailure(CauseClass.KILLED, f"{who} was killed by {signal_name(number)}.", Standing.OWN)


def _of_error(error: RankError, who: str, *, is_oom: bool) -> RankFailure:
    name, message = str(error.type), (error.message or "").strip()
    first = message.splitlines()[0] if message else ""
    if name in DATA_PROBLEMS:  # a sentence for people already, whose end says what to do
        is_others = name == "OthersDataProblem"
        what = "stopped, since another rank cannot use its data" if is_others else "cannot use its data"
        sentence = f"{who} {what}: {first[:MAX_DATA_MESSAGE]}" if first else f"{who} {what}."
        return RankFailure(DATA_PROBLEMS[name], sentence, Standing.WAITED if is_others else Standing.OWN)
    if name == "KeyboardInterrupt":
        return RankFailure(CauseClass.KILLED, f"{who} was interrupted by {signal_name(signal.SIGINT)}.", Standing.OWN)
    found = find_sign(message)
    if found is None and (by_name := find_sign(name)):
        found = by_name._replace(what=shortened(first) or name)
    if found is not None:
        failure = _of_sign(found, who)
        is_killed = is_oom and failure.cause_class == CauseClass.KILLED
        return failure._replace(cause_class=CauseClass.OUT_OF_MEMORY) if is_killed else failure
    is_of_loader = first.startswith("Caught ") and "in DataLoader worker" in first
    if is_of_loader:  # the message is a traceback with the error in its last line
        first = (error.traceback or message).strip().splitlines()[-1].removeprefix(f"{name}: ")
    cause_class = CauseClass.NODE_UNFIT if is_of_loader and name in MISSING_FILE else CauseClass.USER_ERROR
    what = f"{name}: {first[:MAX_MESSAGE]}" if first else name
    return RankFailure(cause_class, f"{who} failed with {what}", Standing.OWN)


def _of_sign(found: FoundSign, who: str) -> RankFailure:
    sign = found.sign
    return RankFailure(sign.cause_class, f"{who} {sign.words.format(what=found.what)}", sign.standing)


def signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


CLASSES = {
    "stopped": CauseClass.STOPPED, "interrupted": CauseClass.INTERRUPTED, "lease_expired": CauseClass.NODE_LOST,
    "node_lost": CauseClass.NODE_LOST, "folder_deleted": CauseClass.STORAGE, "checkpoints_unusable": CauseClass.STORAGE,
    "python_missing": CauseClass.NODE_UNFIT, "python_not_executable": CauseClass.NODE_UNFIT,
    "program_missing": CauseClass.NODE_UNFIT, "data_outside": CauseClass.NODE_UNFIT,
    "isolation_too_low": CauseClass.NODE_UNFIT, "network_closed": CauseClass.NODE_UNFIT,
    "environment": CauseClass.ENVIRONMENT, "supervisor_killed": CauseClass.PROCESS_LOST,
    "supervisor_failed": CauseClass.PROCESS_LOST, "supervisor_stopped": CauseClass.PROCESS_LOST,
    "supervisor_unanswering": CauseClass.PROCESS_LOST, "fence_killed": CauseClass.PROCESS_LOST,
    "init_killed": CauseClass.PROCESS_LOST, "hang": CauseClass.HANG, "network_stall": CauseClass.NETWORK,
    "preempted": CauseClass.PREEMPTED,
}  # fmt: skip
# Sentences that a node writes, since the server may be away: with {node}, {lease} in seconds, the words of an {error}.
SENTENCES = {
    "stopped": "The run was asked to stop.",
    "interrupted": "Trainyard was stopped on {node} while the run was going on.",
    "preempted": "The machine of {node} is taken back, so its ranks were asked to save and end.",
    "lease_expired": "{node} heard nothing from the server for {lease:g} s and ended its ranks, so that no second "
    "attempt meets them.",
    "folder_deleted": "The folder of this run on {node} was deleted while it trained. {node} ended its ranks; what "
    "they had not sent by then is lost.",
    "stale_fence": "A newer attempt of this run exists; {node} ended this one.",
    "supervisor_killed": "The supervisor on {node} was killed; its ranks ended with it.",
    "supervisor_failed": "The supervisor on {node} ended with an error of its own, and its ranks with it: {error}",
    "supervisor_stopped": "The supervisor on {node} was stopped (SIGSTOP) for 15 s; {node} ended it with its ranks.",
    "supervisor_unanswering": "The supervisor on {node} did not answer for 30 s; {node} ended it with its ranks.",
    "init_killed": "The first process of the ranks' namespaces on {node} (ty-init) was killed; the kernel ended the "
    "ranks with it.",
    "fence_killed": "The process reaper on {node} was killed; its ranks ended with it.",
}


def ending_sentence(code: str, node: str, *, lease_s: float = 0.0, error: str = "") -> str:
    return SENTENCES[code].format(node=node, lease=lease_s, error=error)


def ending_class(code: str) -> CauseClass:
    """Return the class of a node's code, with either hyphens or underscores; UNKNOWN for one of a newer node."""
    return CLASSES.get(code.replace("-", "_"), CauseClass.UNKNOWN)

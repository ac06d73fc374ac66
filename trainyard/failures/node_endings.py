"""Classes and sentences for ends that a node gives to all its ranks of an attempt, by the code of its ``Reason``."""

from trainyard.contract.causes import CauseClass

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

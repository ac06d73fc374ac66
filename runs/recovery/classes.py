"""The class of a failure by the code of its verdict."""

from __future__ import annotations

from typing import Any

from trainyard.contract.causes import CauseClass

OF_CODES = {
    "rank-killed": CauseClass.KILLED,
    "rank-failed": CauseClass.USER_ERROR,
    "supervisor-killed": CauseClass.PROCESS_LOST,
    "fence-killed": CauseClass.PROCESS_LOST,
    "processes-missing": CauseClass.PROCESS_LOST,
    "ranks-missing": CauseClass.PROCESS_LOST,
    "contact-lost": CauseClass.NODE_LOST,
    "lease-expired": CauseClass.NODE_LOST,
    "hang": CauseClass.HANG,
    "network-stall": CauseClass.NETWORK,
    "interrupted": CauseClass.INTERRUPTED,
    "folder-deleted": CauseClass.STORAGE,
    "node-refused": CauseClass.REFUSED,
    "checkpoint-gone": CauseClass.REFUSED,
}


def class_of(code: str, sentence: str, evidence: dict[str, Any]) -> CauseClass:
    if code == "rank-failed":
        if "lost its connection to another rank" in sentence:
            return CauseClass.NETWORK
        if "cannot use its data" in sentence:
            return CauseClass.DATA_PROBLEM
    return OF_CODES.get(code, CauseClass.UNKNOWN)

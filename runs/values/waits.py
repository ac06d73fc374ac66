"""Why a run waits in a queue: a code of a small fixed set, by which waits are counted, and a sentence."""

from enum import StrEnum
from typing import NamedTuple


class WaitCode(StrEnum):
    """Codes that control writes with the sentence. A run that it has not looked at yet has another, such as queued."""

    TIME = "waits-for-time"
    RUN = "waits-for-run"
    ARRAY = "waits-for-array"
    SWEEP = "waits-for-sweep"
    NOT_ALLOWED = "project-not-allowed"
    REGION = "other-region"
    QUOTA = "quota-reached"
    BUDGET = "budget-spent"
    NO_NODE = "no-node-fits"
    LEFT_OUT = "nodes-left-out"
    UNUSABLE = "nodes-unusable"
    SLOTS = "slots-taken"
    BEHIND = "behind-others"
    CHECKS = "waits-for-checks"
    CLEANUP = "waits-for-cleanup"


class Reason(NamedTuple):
    code: WaitCode
    sentence: str

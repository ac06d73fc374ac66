"""Restarts of a run by its policy: how often, how soon, and after which failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member
from typing import Annotated, Literal, cast

from pydantic import AfterValidator

from trainyard.contract.base import SpecDocument
from trainyard.contract.causes import CauseClass
from trainyard.spec.problems import show
from trainyard.spec.values.durations import seconds_of
from trainyard.spec.values.fields import Backoff, Lease, Part, Window, more_safety, safety_field

# A node that answers nobody for so long is lost. Its ranks end at 0.8 of it, also while the server is away.
DEFAULT_LEASE = "1d"

# The values of `CauseClass`; a test compares them.
ClassName = Literal[
    "user-error", "data-problem", "node-unfit", "refused", "environment", "out-of-memory", "gpu-out-of-memory",
    "disk-full", "storage", "killed", "process-lost", "node-lost", "network", "collective-timeout", "hang", "gpu-fault",
    "interrupted", "preempted", "resized", "time-limit", "stopped", "unknown",
]  # fmt: skip
Action = Literal["restart", "stop", "exclude-node"]

# A restart would meet the same data, the same refusal, the same limit, or a person who wants none.
NEVER_RESTARTED = frozenset(
    {CauseClass.DATA_PROBLEM, CauseClass.REFUSED, CauseClass.ENVIRONMENT, CauseClass.TIME_LIMIT, CauseClass.STOPPED}
)
# Effect of each class unless `restarts.on` has another word for it.
DEFAULT_ACTIONS: dict[CauseClass, Action] = dict.fromkeys(CauseClass, "restart")
for one in (CauseClass.USER_ERROR, *NEVER_RESTARTED):
    DEFAULT_ACTIONS[one] = "stop"
for one in (CauseClass.NODE_UNFIT, CauseClass.DISK_FULL, CauseClass.GPU_FAULT):
    DEFAULT_ACTIONS[one] = "exclude-node"
# The same failure is likely again, so that by default one restart is all.
RESTARTED_ONCE = frozenset({CauseClass.OUT_OF_MEMORY, CauseClass.GPU_OUT_OF_MEMORY, CauseClass.UNKNOWN})


def _actions(value: dict[ClassName, Action]) -> dict[ClassName, Action]:
    for name, action in value.items():
        if action != "stop" and CauseClass(name) in NEVER_RESTARTED:
            raise ValueError(f"must be stop for {name}, which a restart does not change, not {show(action)}")
    return value


Actions = Annotated[dict[ClassName, Action], AfterValidator(_actions)]


class Restarts(Part):
    """Policy after a failure."""

    max: int = safety_field(
        3,
        "Restarts",
        "How often a run that failed is started again by itself; one that kept a newer checkpoint since then "
        "starts counting anew. 0 is never.",
        within=(0, 1_000),
    )
    window: Window = more_safety(
        "1h", "Restarts within", "Restarts that are longer ago do not count, such as 1h or 1d."
    )
    backoff: Backoff = more_safety(
        "2s",
        "Pause",
        "Before the second restart in a row, such as 2s; each further pause is twice as long, 5m at most. The "
        "first restart follows at once.",
    )
    lease: Lease = more_safety(
        DEFAULT_LEASE,
        "Lease",
        "After so long without contact a node counts as lost, and its ranks have ended by themselves: they do at "
        "0.8 of it, also when the server is away for so long. At least 10s, such as 10m or 2h.",
    )
    on: Actions = more_safety(
        {},
        "After a failure",
        "What follows from a class of failure, such as user-error: restart. The actions are restart, stop, and "
        "exclude-node, which restarts without the node where it happened. What is not named follows its default.",
    )


@dataclass(frozen=True)
class RestartRules:
    """The section of a resolved spec, in numbers. A spec without the section is never restarted."""

    max: int = 0
    window_s: float = 3_600.0
    backoff_s: float = 2.0
    lease_s: float = seconds_of(DEFAULT_LEASE)
    on: Mapping[CauseClass, Action] = member(default_factory=dict)

    @classmethod
    def of(cls, spec: SpecDocument) -> RestartRules:
        section = spec.get("restarts") or {}
        return cls(
            max=int(section.get("max", 0)),
            window_s=seconds_of(section.get("window") or "1h"),
            backoff_s=seconds_of(section.get("backoff") or "2s"),
            lease_s=seconds_of(section.get("lease") or DEFAULT_LEASE),
            on={CauseClass(name): cast(Action, action) for name, action in (section.get("on") or {}).items()},
        )

    def action_on(self, cause: CauseClass) -> Action:
        return "stop" if cause in NEVER_RESTARTED else self.on.get(cause) or DEFAULT_ACTIONS[cause]

    @property
    def replaces_lost_nodes(self) -> bool:
        """Return whether silence alone may have the run started again, once the lease is over."""
        return self.max > 0 and self.action_on(CauseClass.NODE_LOST) != "stop"

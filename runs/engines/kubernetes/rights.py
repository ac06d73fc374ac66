"""What the server must be allowed to do in the namespace of a cluster. docs/kubernetes/rbac.yaml gives just that."""

from __future__ import annotations

from typing import NamedTuple


class Right(NamedTuple):
    group: str  # empty for the core group
    resource: str
    verb: str
    is_needed: bool = True  # else words of reasons are missing without it

    @property
    def words(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


RIGHTS = (
    *(Right("batch", "jobs", verb) for verb in ("get", "list", "create", "patch", "delete")),
    Right("", "pods", "list"),
    Right("", "services", "create"),
    Right("", "secrets", "create"),
    Right("", "events", "list", is_needed=False),
    Right("", "pods/log", "get", is_needed=False),
)
FOR_KUEUE = (Right("kueue.x-k8s.io", "workloads", "list", is_needed=False),)

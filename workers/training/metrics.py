"""Reports of a training: points by step, what became of its checkpoints, facts about the run."""

import time
from collections.abc import Mapping
from typing import Protocol

from trainyard.contract.base import to_builtins
from trainyard.contract.records import Checkpoint, Facts


class Reports(Protocol):
    """Destination of records that are kept at once."""

    def report(self, record: Checkpoint | Facts) -> None:
        """Report what became of a checkpoint, or facts about the run. May be called from any thread."""


class Metrics(Reports, Protocol):
    """Destination of points: the run that ``trainyard.init`` returns."""

    def log(
        self, values: Mapping[str, float], step: int | None = None, labels: Mapping[str, str] | None = None
    ) -> None: ...

    def flush(self) -> bool:
        """Return whether what was logged is kept, whatever ends this process. May be called from any thread."""


def facts_record(name: str, found: object) -> Facts:
    """Return the facts, a document of the contract, as the record of that name."""
    return Facts(name=name, data=to_builtins(found), at=time.time())

"""Checkpoints as ranks tell of them, through the one commit."""

from __future__ import annotations

from typing import Any

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from tests.spools import Spool


def tell(run: Run, *notes: dict[str, Any], fence: int | None = None, node: str = "node-a") -> None:
    """Rank 0 of the attempt with that fence (of the newest, when none is named) says this."""
    run.refresh_from_db(fields=["fence"])
    spool = Spool()
    spool.begin(rank=0)
    for note in notes:
        spool.add("checkpoint", **note)
    fence = run.fence if fence is None else fence
    commit(run.pk, fence=fence, source=Source("node1", node), batch=incoming(spool.bytes))


def saved(step: int, **changes: Any) -> dict[str, Any]:
    """A checkpoint of 4 KiB that two ranks in data parallel took."""
    facts = {"bytes": 4096, "num_files": 3, "world_size": 2, "degrees": {"data": 2}, "took_s": 0.5, "stall_s": 0.01}
    return {"state": "saved", "step": step, "at": 1.7e9 + step, **facts, **changes}

"""Which buttons a run has, for a person who may act on it. Templates ask here, and compare no status themselves."""

from __future__ import annotations

from typing import NamedTuple

from runs.models import Run
from runs.status import Status


class Offers(NamedTuple):
    stop: bool  # it is live and was not asked to stop yet
    end_at_once: bool  # it is stopping
    restart: bool  # it ended without success
    repair: bool  # it failed: a restart is the first thing to offer
    give_up: bool  # it is out of contact
    clone: bool
    trace: bool  # its recipe is training now
    archive: bool
    unarchive: bool
    delete: bool


def offers_of(run: Run) -> Offers:
    is_ours, is_ended = not run.is_local, not run.is_live
    return Offers(
        stop=is_ours and run.is_live and run.status != Status.STOPPING,
        end_at_once=is_ours and run.status == Status.STOPPING,
        restart=is_ours and is_ended and run.status != Status.SUCCEEDED,
        repair=is_ours and run.status == Status.FAILED,
        give_up=run.status == Status.LOST,
        clone=is_ours,
        trace=run.status == Status.RUNNING and bool(run.spec.get("train")),
        archive=is_ended and run.archived_at is None,
        unarchive=is_ended and run.archived_at is not None,
        delete=is_ended,
    )

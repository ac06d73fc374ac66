"""Buttons of a run, for a person who may act on it. Templates ask here, and compare no status themselves."""

from typing import NamedTuple

from runs.models import Run
from runs.values.status import Status, Wanted

REWINDABLE = (Status.RUNNING, Status.PAUSED, Status.FAILED, Status.CANCELLED)


class Offers(NamedTuple):
    stop: bool  # it is live and was not asked to stop yet
    end_at_once: bool  # it is stopping for good
    pause: bool
    resume: bool
    restart: bool  # it ended without success
    repair: bool  # it failed: a restart is the first thing to offer
    give_up: bool  # it is out of contact
    clone: bool
    resize: bool  # it is elastic
    trace: bool  # its recipe is training now
    rewind: bool  # it trains, or it was ended and may go on
    archive: bool
    unarchive: bool
    delete: bool


def stop_words(run: Run) -> str:
    """Return what a stop does to the run, for the question before it."""
    grace = run.spec.get("limits", {}).get("grace") or "5s"
    if run.saves_at_stop:
        return f"Its ranks save a checkpoint first, within {grace}. You can restart it."
    return f"Its ranks get SIGTERM and have {grace} to end. You can restart it."


def pause_words(run: Run) -> str:
    """Return what a pause does to the run, for the question before it."""
    grace = run.spec.get("limits", {}).get("grace") or "5s"
    if run.saves_at_stop:
        return f"Its ranks save a checkpoint, within {grace}, and its slots are free for others until you resume it."
    if "recipe" in run.spec.get("task", {}):
        return "It keeps no checkpoints: only a run that has not started yet can be paused without losing its steps."
    return (
        f"Its ranks get SIGTERM and have {grace} to end. Resuming starts the script again: it finds the folder "
        "that TRAINYARD_CHECKPOINTS names, and its working folder where it comes to the same nodes."
    )


def give_up_words(run: Run) -> str:
    """Return what happens to a run that is given up, for the question before it."""
    if run.is_local:
        return "It ends as cancelled, unless its end is sent after all. Nothing that was logged is lost."
    return "It ends as cancelled. If its nodes come back, what they still hold is refused."


def offers_of(run: Run) -> Offers:
    is_ours, is_ended = not run.is_local, not run.is_live
    is_pausing = run.status == Status.STOPPING and run.wanted == Wanted.PAUSE
    return Offers(
        stop=is_ours and run.is_live and (run.status != Status.STOPPING or is_pausing),
        end_at_once=is_ours and run.status == Status.STOPPING and not is_pausing,
        pause=is_ours and run.is_live and run.status not in (Status.STOPPING, Status.PAUSED),
        resume=is_ours and run.status == Status.PAUSED,
        restart=is_ours and is_ended and run.status != Status.SUCCEEDED,
        repair=is_ours and run.status == Status.FAILED,
        give_up=run.status == Status.LOST,
        clone=is_ours,
        resize=is_ours and run.is_live and bool(run.node_counts) and run.status != Status.STOPPING,
        trace=run.status == Status.RUNNING and bool(run.spec.get("train")),
        rewind=is_ours and bool(run.spec.get("train")) and run.status in REWINDABLE,
        archive=is_ended and run.archived_at is None,
        unarchive=is_ended and run.archived_at is not None,
        delete=is_ended,
    )

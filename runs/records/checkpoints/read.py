"""Reading checkpoints: from which of them a run can go on."""

from runs.models import Run
from runs.records.metrics.models import Checkpoint, CheckpointQuerySet

SAVED, DELETED, INVALID, RESTORED, ANEW, OFF = ("saved", "deleted", "invalid", "restored", "anew", "off")


def candidates(run_id: str, *, before: int, number: int) -> list[Checkpoint]:
    """Return the newest checkpoints to go on from that attempts with fences below ``before`` left, newest first.

    A newer attempt's go before an older one's, whatever their steps: what an older one did after the newer had begun
    is not this training's past.
    """
    return list(_on_the_way(run_id).filter(fence__lt=before).order_by("-fence", "-step")[:number])


def newest_up_to(run_id: str, step: int) -> Checkpoint | None:
    """Return the newest checkpoint to go on from that is of this step or of one before it."""
    return _on_the_way(run_id).filter(step__lte=step).order_by("-fence", "-step").first()


def oldest(run_id: str) -> Checkpoint | None:
    return _on_the_way(run_id).order_by("step").first()


def _on_the_way(run_id: str) -> CheckpointQuerySet:
    """Return the sound ones, without those from which the run was sent back."""
    found = Checkpoint.objects.sound().filter(run_id=run_id)
    run = Run.objects.only("rewinds").filter(pk=run_id).first()
    for one in run.known_rewinds if run is not None else ():
        found = found.exclude(fence__lte=one.fence, step__gt=one.to_step)
    return found


def find(run_id: str, step: int) -> Checkpoint | None:
    """Return the run's checkpoint of that step to go on from, the newest attempt's; None where there is none."""
    return Checkpoint.objects.sound().filter(run_id=run_id, step=step).order_by("-fence").first()

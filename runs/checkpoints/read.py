"""Reading checkpoints: from which of them a run can go on."""

from __future__ import annotations

from runs.metrics.models import Checkpoint


def candidates(run_id: str, *, before: int, number: int) -> list[Checkpoint]:
    """Return the newest checkpoints to go on from that attempts with fences below ``before`` left, newest first.

    A newer attempt's go before an older one's, whatever their steps: what an older one did after the newer had begun
    is not this training's past.
    """
    return list(Checkpoint.objects.sound().filter(run_id=run_id, fence__lt=before).order_by("-fence", "-step")[:number])


def find(run_id: str, step: int) -> Checkpoint | None:
    """Return the run's checkpoint of that step to go on from, the newest attempt's; None where there is none."""
    return Checkpoint.objects.sound().filter(run_id=run_id, step=step).order_by("-fence").first()

"""The state of a training on the disk: written beside the training, whole or not there, restored under any mesh."""

from __future__ import annotations

from workers.training.build import Training


class NoCheckpoints:
    """Keeps nothing, and starts anew."""

    def restore(self, training: Training) -> int:
        return 0

    def after_step(self, training: Training, step: int, *, is_last: bool) -> None:
        pass

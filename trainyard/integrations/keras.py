"""Keras: ``model.fit(callbacks=[TrainyardCallback()])`` logs to a Trainyard run, on every backend."""

from typing import Any

import keras

from trainyard.integrations import begin


class TrainyardCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """``arguments`` are those of ``trainyard.init``; the name is the model's where none is given.

    Figures of an epoch are logged at its number, ``loss`` as ``train/loss`` and ``val_loss`` as ``val/loss``. With
    ``every``, those of each such batch are logged too, as ``batch/loss`` at the number of batches so far. The
    configuration gets what ``fit`` was told, and that of the optimizer. The run goes on until the script ends or
    finishes it.
    """

    def __init__(self, *, every: int | None = None, **arguments: Any) -> None:
        super().__init__()
        if every is not None and every < 1:
            raise ValueError(f"TrainyardCallback: every={every!r} must be 1 or more")
        self._every = every
        self._arguments = arguments
        self._num_batches = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._run = begin(self._arguments, self.model.name)
        told = {name: value for name, value in (self.params or {}).items() if value is not None}
        optimizer = getattr(self.model, "optimizer", None)
        told |= {"optimizer": optimizer.get_config()} if optimizer is not None else {}
        self._run.config.update(told, allow_change=True)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._every is not None and self._num_batches % self._every == 0:
            self._run.log({f"batch/{name}": value for name, value in (logs or {}).items()}, self._num_batches)
        self._num_batches += 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._run.log({_name_of(name): value for name, value in (logs or {}).items()}, epoch)


def _name_of(name: str) -> str:
    return f"val/{name.removeprefix('val_')}" if name.startswith("val_") else f"train/{name}"

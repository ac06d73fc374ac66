"""Lightning: ``Trainer(logger=TrainyardLogger())`` logs its metrics and hyperparameters to a Trainyard run."""

from collections.abc import Mapping
from typing import Any

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

import trainyard
from trainyard.sdk import Run


class TrainyardLogger(Logger):
    """``arguments`` are those of ``trainyard.init``, which the first thing that is logged calls, in rank 0 alone."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        self._run: Run | None = None

    @property
    def name(self) -> str | None:
        return self._run.name if self._run is not None else self._arguments.get("name")

    @property
    def version(self) -> str | None:
        return self._run.id if self._run is not None else None

    @property
    @rank_zero_experiment
    def experiment(self) -> Run:
        """The run; in other ranks something that takes every call and does nothing."""
        if self._run is None:
            self._run = trainyard.init(**self._arguments)
        return self._run

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.experiment.log(dict(metrics), step)

    @rank_zero_only
    def log_hyperparams(self, params: Any = None, *_: Any, **more: Any) -> None:
        self.experiment.config.update(params if params is not None else {}, allow_change=True, **more)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Lightning calls it behind each ``fit`` and ``test``: the run goes on until the script ends or finishes it."""
        if self._run is not None and status == "failed":
            self._run.finish(1)

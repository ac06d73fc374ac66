"""Optuna: ``study.optimize(objective, callbacks=[TrainyardCallback()])`` writes the trials of a study into one run."""

import threading
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from trainyard.integrations import begin
from trainyard.sdk import Run


class TrainyardCallback:
    """``arguments`` are those of ``trainyard.init``; the name is the study's where none is given.

    Each trial is a step. Its values are the series of ``metrics`` (``objective``, or ``objective_0`` and so on where
    the study has several), its parameters ``param/…``, its seconds ``duration_s``, its state the text ``state``; the
    best value so far is ``best``. A trial that failed or was pruned has its parameters and its state.
    """

    def __init__(self, *metrics: str, **arguments: Any) -> None:
        self._metrics = metrics
        self._arguments = arguments
        self._lock = threading.Lock()  # of the threads of ``n_jobs``
        self._run: Run | None = None

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        names = self._names_of(study)
        values = {f"param/{name}": value for name, value in trial.params.items() if value is not None}
        values["state"] = trial.state.name.lower()
        if trial.duration is not None:
            values["duration_s"] = trial.duration.total_seconds()
        if trial.state == TrialState.COMPLETE:
            values |= dict(zip(names, trial.values, strict=True))
            if len(names) == 1:
                values["best"] = study.best_value
        with self._lock:
            run = self._run = self._run or self._begin(study, names)
        run.log(values, trial.number)

    def _names_of(self, study: Study) -> tuple[str, ...]:
        """Names of the study's values. Raises ValueError where ``metrics`` are not as many."""
        num_values = len(study.directions)
        several = tuple(f"objective_{index}" for index in range(num_values))
        names = self._metrics or (several if num_values > 1 else ("objective",))
        if len(names) != num_values:
            raise ValueError(f"TrainyardCallback: {len(names)} names of metrics for {num_values} values of the study")
        return names

    def _begin(self, study: Study, names: tuple[str, ...]) -> Run:
        run = begin(self._arguments, study.study_name)
        goals = [direction.name.lower() for direction in study.directions]
        of_study = {"name": study.study_name, "sampler": type(study.sampler).__name__, "directions": goals}
        run.config.update({"study": of_study}, allow_change=True)
        for name, goal in zip(names, goals, strict=True):
            run.define_metric(name, goal=goal)
        return run

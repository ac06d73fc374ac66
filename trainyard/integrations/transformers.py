"""Transformers: ``Trainer(callbacks=[TrainyardCallback()])`` logs to a Trainyard run from the main process; once this
module is imported ``report_to="trainyard"`` does the same. The trainers of TRL take both."""

from typing import Any

from transformers import TrainerCallback, TrainingArguments
from transformers.integrations import integration_utils

from trainyard.integrations import begin
from trainyard.sdk import Run

# What the end of a training says of the whole of it: one value each, beside the series of the same training.
OF_THE_WHOLE = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss", "total_flos")


class TrainyardCallback(TrainerCallback):
    """``arguments`` are those of ``trainyard.init``; the name is the ``run_name`` of the training where none is given.

    The configuration is that of the model and of the training's arguments. ``loss`` is ``train/loss``, ``eval_loss`` is
    ``eval/loss``; the step is the optimizer's. The run goes on until the script ends or finishes it.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        self._run: Run | None = None

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        run = self._begin(args, state)
        if run is None:
            return
        of_model: Any = getattr(model, "config", None) or {}
        values: dict[str, Any] = args.to_dict()  # type: ignore[no-untyped-call]
        values["model"] = of_model if isinstance(of_model, dict) else of_model.to_dict()
        run.config.update(values, allow_change=True)
        if hasattr(model, "num_parameters"):
            run.config.update({"num_parameters": model.num_parameters()}, allow_change=True)

    def on_log(
        self, args: TrainingArguments, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if (run := self._begin(args, state)) is not None:
            run.log({_name_of(name): value for name, value in (logs or {}).items()}, state.global_step)

    def on_predict(self, args: TrainingArguments, state: Any, control: Any, metrics: dict[str, Any], **_: Any) -> None:
        self.on_log(args, state, control, metrics)

    def _begin(self, args: TrainingArguments, state: Any) -> Run | None:
        """The run, in the main process; None in the others."""
        if self._run is None and state.is_world_process_zero:
            self._run = begin(self._arguments, args.run_name)
        return self._run


def _name_of(name: str) -> str:
    if name in OF_THE_WHOLE:
        return f"train_total/{name.removeprefix('train_')}"
    for part in ("eval", "test"):
        if name.startswith(f"{part}_"):
            return f"{part}/{name.removeprefix(f'{part}_')}"
    return f"train/{name}"


integration_utils.INTEGRATION_TO_CALLBACK["trainyard"] = TrainyardCallback

"""Accelerate: ``Accelerator(log_with=TrainyardTracker())`` logs to a Trainyard run from the main process."""

from typing import Any

from accelerate.tracking import GeneralTracker, on_main_process

import trainyard
from trainyard.sdk import Run


class TrainyardTracker(GeneralTracker):  # type: ignore[misc]
    """``arguments`` are those of ``trainyard.init``."""

    name = "trainyard"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        self._run: Run | None = None

    @on_main_process  # type: ignore[untyped-decorator]
    def start(self) -> None:
        self._run = trainyard.init(**self._arguments)

    @property
    def tracker(self) -> Run | None:
        """The run, which ``Accelerator.get_tracker("trainyard", unwrap=True)`` gives; None before it starts."""
        return self._run

    @on_main_process  # type: ignore[untyped-decorator]
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.config.update(values, allow_change=True)

    @on_main_process  # type: ignore[untyped-decorator]
    def log(self, values: dict[str, Any], step: int | None = None, **options: Any) -> None:
        if self._run is not None:
            self._run.log(values, step, **options)

    @on_main_process  # type: ignore[untyped-decorator]
    def finish(self) -> None:
        if self._run is not None:
            self._run.finish()

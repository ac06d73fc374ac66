"""Where the time of an ended run went, written once so that many runs can be summed."""

from __future__ import annotations

from django.db import models

from runs.models.runs import Run


class RunTime(models.Model):
    """A row for each run that has ended; the columns are those of runs.records.time_use.split.TimeUse, in seconds."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="time")
    ended_at = models.DateTimeField()  # of the run: where it differs now, the run was restarted since
    queued_s = models.FloatField()
    starting_s = models.FloatField()
    productive_s = models.FloatField()
    recomputed_s = models.FloatField()
    checkpoint_s = models.FloatField()
    detection_s = models.FloatField()
    restart_s = models.FloatField()
    paused_s = models.FloatField()

    def __str__(self) -> str:
        return f"time of {self.run_id}"

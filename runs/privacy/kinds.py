"""The kinds of data that a project has: what is measured, kept for so long, and shown where it lies."""

from __future__ import annotations

from enum import StrEnum

from runs.models import Project


class Kind(StrEnum):
    RUNS = "runs"
    METRICS = "metrics"
    LOGS = "logs"
    MEDIA = "media"
    OUTPUTS = "outputs"
    CHECKPOINTS = "checkpoints"
    CODE = "code"
    DATASETS = "datasets"


WORDS = {
    Kind.RUNS: "Runs: specs, notes and history",
    Kind.METRICS: "Metrics",
    Kind.LOGS: "Logs",
    Kind.MEDIA: "Images, texts, tables and histograms",
    Kind.OUTPUTS: "Output files",
    Kind.CHECKPOINTS: "Checkpoints",
    Kind.CODE: "Code that runs were launched with",
    Kind.DATASETS: "Datasets by name",
}
# What retention removes, some days after a run has ended. Without the run itself nothing else of it is left.
REMOVABLE = (Kind.LOGS, Kind.METRICS, Kind.MEDIA, Kind.OUTPUTS, Kind.CHECKPOINTS, Kind.RUNS)


def days_kept(project: Project, kind: Kind) -> int | None:
    """Return for how many days after the end of a run the project keeps the kind; None: for ever."""
    found: int | None = getattr(project, f"keep_{kind}_days")
    return found

"""Bar of the time of runs: its parts stacked, with their numbers."""

from typing import NamedTuple

from dashboard.pages.shared.estimate import EstimateBar, slices_of
from runs.records.time_use.split import TimeUse
from trainyard.formats.figures import duration, percent

# In the order of the bar. Colours are of series-N; the same part has the same colour everywhere.
PARTS = {
    "productive_s": ("Productive", "steps that are trained once", 3),
    "checkpoint_s": ("Checkpoints", "steps waited for a checkpoint to be saved", 5),
    "recomputed_s": ("Trained again", "steps that an earlier attempt had trained already", 2),
    "detection_s": ("Noticing failures", "from a failure until it was known", 7),
    "restart_s": ("Restarting", "from a failure to the first step of the next attempt", 6),
    "starting_s": ("Starting", "from the placing to the first step", 1),
    "queued_s": ("Waiting", "for a place on the cluster", 9),
    "paused_s": ("Paused", "by a person", 4),
}
LEAST_SHARE = 0.0005  # of all the time: what is less is not drawn


class TimeView(NamedTuple):
    """The bar, and the productive share of the time in words."""

    bar: EstimateBar
    goodput: str


def time_view(time: TimeUse, label: str) -> TimeView | None:
    """Return what is drawn; nothing where no time has passed."""
    if time.total_s <= 0:
        return None
    seconds, least_s = time.by_name(), LEAST_SHARE * time.total_s
    values = [(seconds[name] if seconds[name] >= least_s else 0.0, *words) for name, words in PARTS.items()]
    bar = EstimateBar(label, duration(time.total_s), "", slices_of(values, time.total_s, duration))
    return TimeView(bar, percent(time.goodput))

"""Charts beside the table: of the first runs that it shows, in the colours that their rows have."""

from collections.abc import Sequence

from dashboard.pages.shared.chart_runs import ChartRun, chart_runs, charts_context
from dashboard.pages.shared.grid import WINDOW
from dashboard.pages.shared.run_colours import colours_for
from runs.models import Run, User


def charts(user: User, shown: Sequence[Run]) -> dict[str, object]:
    """Return what the pane needs, beside what the table does."""
    found = charts_context(user, shown, colours=colours_for(user, shown))["charts"]
    return {"charts": {**found, "runs": _bare(found["runs"])}, "charts_words": words(shown)}


def runs(user: User, shown: Sequence[Run]) -> list[ChartRun]:
    return _bare(chart_runs(shown, colours_for(user, shown)))


def words(shown: Sequence[Run]) -> str:
    num = len(shown)
    return f"of the first {num} runs" if num == WINDOW else f"of {num} run{'' if num == 1 else 's'}"


def _bare(found: list[ChartRun]) -> list[ChartRun]:
    """Nothing here groups them by their specs."""
    for one in found:
        one["fields"] = {}
    return found

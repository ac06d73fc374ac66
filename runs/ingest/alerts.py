"""Alerts of scripts: texts under ``alert/`` and a level are lines of the history too, of which notices are made."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from runs.models import Run
from runs.models.notices import ALERT_LEVELS
from runs.records.media.store import Item
from trainyard.formats.names import visible

MOST = 500  # lines of a run: a loop that raises alerts fills no history
NEWS = timedelta(days=1)  # what an import brings is older
LONGEST = 500  # characters
NAMES = {f"alert/{level}": level for level in ALERT_LEVELS}


def raise_alerts(run_id: str, *, fence: int, items: Iterable[Item], now: datetime, hides: bool) -> None:
    """Write the alerts among the items into the history: one for all ranks that raise it at a step, and none twice,
    since a batch may come again. ``hides``: the texts of the project are encrypted, and history is not."""
    found = [one for one in items if one.kind == "text" and one.name in NAMES]
    run = Run.objects.filter(pk=run_id).first() if found else None
    if run is None:
        return
    known = list(run.events.filter(code="alert").values_list("data", flat=True))
    for item in found:
        level, at = NAMES[item.name], min(now.timestamp(), max(0.0, item.time))
        title, *more = [visible(line.strip()) for line in item.data.decode()[:LONGEST].splitlines()] or [""]
        said = {"label": f"{fence}/{level}/{title[:100] * (not hides)}", "level": level, "step": item.step}
        if said not in known and len(known) < MOST and now.timestamp() - at < NEWS.total_seconds():
            known.append(said)
            words = "its text is among the media." if hides else ": ".join(filter(None, (title, " ".join(more))))
            moment = datetime.fromtimestamp(at, UTC)
            run.record("alert", f"The script raised an alert ({level}): {words}", data=said, at=moment)

"""The queue of a cluster as people see it: in order, with reasons and predicted starts."""

from datetime import datetime
from typing import NamedTuple

from runs.models import Cluster, Run
from runs.placing.queue import arranged, requests_of, waiting_runs
from runs.rights.access import Someone, visible_runs

MOST = 1_000


class QueuedRun(NamedTuple):
    run: Run
    place: int  # from 1


def queue_of(user: Someone, cluster: Cluster, now: datetime) -> list[QueuedRun]:
    """Return the first runs that wait, of which those that the person sees. The others are counted in the places."""
    order = [one.run for one in arranged(cluster, requests_of(waiting_runs(cluster)), now)][:MOST]
    seen = visible_runs(user).filter(pk__in=order).select_related("project").defer("spec", "estimate").in_bulk()
    return [QueuedRun(seen[run], place) for place, run in enumerate(order, 1) if run in seen]

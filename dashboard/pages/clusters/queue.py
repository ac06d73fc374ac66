"""The queue of a cluster: who waits, for what, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils.safestring import SafeString

from dashboard.pages.shared.numbers import age_element
from dashboard.pages.shared.run_rows import run_url
from dashboard.pages.shared.stencil import stencil
from runs.access import Someone, visible_runs
from runs.models import Cluster, Run
from runs.placing.queue import waiting_runs

MAX_QUEUE = 100
COLUMNS = ("pk", "name", "num_nodes", "slots_per_node", "accelerator", "reason_sentence", "created_at")
SEEN = ("order", "url", "name", "needs", "reason", "since")
UNSEEN = ("order", "needs", "reason", "since")


def queue_rows(user: Someone, cluster: Cluster, now: datetime) -> list[SafeString]:
    """Return the first rows of the table. Of a run that this person does not see, what it needs and since when."""
    waiting = list(waiting_runs(cluster).values_list(*COLUMNS)[:MAX_QUEUE])
    ids = [run_id for run_id, *_ in waiting]
    seen = set(visible_runs(user).filter(pk__in=ids).order_by().values_list("pk", flat=True)) if ids else set()
    older = _sizes_from_specs([row[0] for row in waiting if row[2] is None])
    whole = stencil("nodes/_queue_row.html", SEEN, is_seen=True)
    part = stencil("nodes/_queue_row.html", UNSEEN, is_seen=False)
    rows = []
    for order, (run_id, name, num_nodes, per_node, accelerator, reason, since) in enumerate(waiting, start=1):
        needs, age = older.get(run_id) or _needs(num_nodes or 1, per_node or 1, accelerator), age_element(since, now)
        if run_id in seen:
            url = run_url(run_id)
            rows.append(whole.fill(order=order, url=url, name=name, needs=needs, reason=reason or "–", since=age))
        else:
            rows.append(part.fill(order=order, needs=needs, reason="–", since=age))
    return rows


def _sizes_from_specs(ids: Sequence[str]) -> dict[str, str]:
    """What runs need that were submitted before runs had these columns."""
    resources = ("spec__resources__processes_per_node", "spec__resources__accelerator")
    rows = Run.objects.filter(pk__in=ids).order_by().values_list("pk", *resources) if ids else ()
    return {pk: _needs(1, int(per_node or 1), str(accelerator or "")) for pk, per_node, accelerator in rows}


def _needs(num_nodes: int, per_node: int, accelerator: str) -> str:
    kind = f" {accelerator.upper()}" if accelerator not in ("", "auto") else ""
    return f"{num_nodes} node{'s' if num_nodes > 1 else ''} × {per_node}{kind}"

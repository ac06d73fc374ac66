"""How nodes felt: the history of their health samples, thinned to what a small chart can show."""

from __future__ import annotations

from contextlib import suppress

from runs.records.metrics.models import NodeSample
from trainyard.contract.base import BadDocument, convert
from trainyard.contract.machines import HealthSample

MAX_SAMPLES = 20_000  # more than a day of one every five seconds


def node_history(node_id: str, *, since: float, until: float, points: int = 120) -> list[HealthSample]:
    """Return at most ``points`` samples between two Unix times, oldest first.

    The range is cut into equal pieces, and each piece that has samples shows its last one.
    """
    rows = NodeSample.objects.filter(node_id=node_id, at__gte=since, at__lte=until).order_by("-at")
    width = max(1e-9, (until - since) / points)
    kept: dict[int, int] = {}
    for pk, at in rows.values_list("pk", "at")[:MAX_SAMPLES]:
        kept.setdefault(min(points - 1, int((at - since) / width)), pk)
    found = NodeSample.objects.filter(pk__in=kept.values()).order_by("at")
    samples = []
    for row in found:
        with suppress(BadDocument):  # of an older version
            samples.append(convert({**row.health, "at": row.at}, HealthSample))
    return samples

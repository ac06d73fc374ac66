"""How nodes felt: the history of their health samples, thinned to what a small chart can show."""

from __future__ import annotations

from typing import Any

from runs.metrics.models import NodeSample

MAX_SAMPLES = 20_000  # more than a day of one every five seconds


def node_history(node_id: str, *, since: float, until: float, points: int = 120) -> list[dict[str, Any]]:
    """Return at most ``points`` samples between two Unix times, oldest first: {"at": seconds, **health}.

    The range is cut into equal pieces, and each piece that has samples shows its last one.
    """
    rows = NodeSample.objects.filter(node_id=node_id, at__gte=since, at__lte=until).order_by("-at")
    width = max(1e-9, (until - since) / points)
    kept: dict[int, int] = {}
    for pk, at in rows.values_list("pk", "at")[:MAX_SAMPLES]:
        kept.setdefault(min(points - 1, int((at - since) / width)), pk)
    found = NodeSample.objects.filter(pk__in=kept.values()).order_by("at")
    return [{**sample.health, "at": sample.at} for sample in found]

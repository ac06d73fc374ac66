"""Datasets in any state, and the answers of nodes about them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from runs import actions
from runs.models import Dataset, Node
from tests.cast import Cast
from trainyard.formats.pictures import png

TABLE: dict[str, Any] = {
    "kind": "table",
    "num_rows": 4,
    "num_files": 1,
    "size_bytes": 2_048,
    "digest": "ab" * 32,
    "columns": [
        {"name": "height", "type": "number", "missing": 1, "min": 1.5, "max": 3.25, "mean": 2.5, "examples": [1.5]},
        {"name": "<b>kind</b>", "type": "text", "missing": 0, "num_distinct": 2, "examples": ["oak"]},
    ],
    "classes": [{"name": "oak", "count": 3}, {"name": "elm", "count": 1}],
    "rows": [[1.5, "oak"], [None, "<script>alert(1)</script>"]],
}
PICTURE = png(bytes(range(64)), 8, 8, 1)


def make_dataset(cast: Cast, name: str = "trees", **changes: Any) -> Dataset:
    """A table of the mate's that nobody has looked at yet; ``changes`` go into its row."""
    asked = {"source": "csv", "location": "/data/trees.csv", "options": {"target": "height"}}
    asked |= {key: changes.pop(key) for key in ("source", "location", "options") if key in changes}
    dataset = actions.create_dataset(actor=cast.mate, project=cast.project, cluster=cast.cluster, name=name, **asked)
    for field, value in changes.items():
        setattr(dataset, field, value)
    dataset.save()
    return dataset


def asked(dataset: Dataset, node: Node) -> Dataset:
    """As control leaves it when it has asked the node."""
    dataset.state, dataset.checked_by, dataset.asked_at = Dataset.State.CHECKING, node, timezone.now()
    dataset.save()
    return dataset


def ready(cast: Cast, name: str = "trees", facts: dict[str, Any] | None = None, **changes: Any) -> Dataset:
    facts = TABLE if facts is None else facts
    known = {"facts": facts, "size_bytes": facts.get("size_bytes"), "digest": facts.get("digest", "")}
    return make_dataset(cast, name, state=Dataset.State.READY, checked_at=timezone.now(), **known, **changes)

"""What a node refuses: for good, or as a fault of the node, which another node or a repair changes."""

from __future__ import annotations

import pytest

from runs.causes import PlacementState, failures_of
from runs.values.status import Phase
from trainyard.contract.causes import CauseClass
from trainyard.contract.reports import AttemptReport, Reason


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("code_missing", CauseClass.REFUSED),
        ("python_missing", CauseClass.NODE_UNFIT),
        ("checkpoints_unusable", CauseClass.STORAGE),
    ],
)
def test_a_refusal_has_the_class_of_its_code(code: str, cause: CauseClass) -> None:
    reason = Reason(code, "The folder of checkpoints, /ckpt, is a file, not a folder.", evidence={})
    report = AttemptReport(at=5.0, attempt="a", run="r", fence=1, node="n", phase=Phase.REFUSED, reason=reason)
    part = PlacementState("node-a", Phase.REFUSED, report, 0.0, is_answering=True, is_listed=True)
    (failure,) = failures_of([part])
    assert (failure.cause_class, failure.sentence, failure.node) == (cause, reason.sentence, "node-a")

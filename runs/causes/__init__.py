"""Causes of an attempt's end, found in the evidence of all its nodes together. Pure, no database.

Read in this order: ``placements`` (what a node reported), ``failures`` (each proof that something failed), ``endings``
(the one that is the cause, with the others as its consequences).
"""

from runs.causes.endings import STOOD_STILL, cause_of, cause_of_stop, no_contact
from runs.causes.failures import UNASKED, Failure, failures_of
from runs.causes.placements import MISSING_S, PlacementState

__all__ = [
    "MISSING_S", "STOOD_STILL", "UNASKED", "Failure", "PlacementState", "cause_of", "cause_of_stop", "failures_of",
    "no_contact",
]  # fmt: skip

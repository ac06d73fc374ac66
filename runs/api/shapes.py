"""Shapes that several resources share."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict

from runs.api.schemas import schema_of
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.facts import TimeDocument


class Body(Schema):
    """A request's body: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class Empty(Body):
    """Nothing is needed."""


class TimeOut(schema_of(TimeDocument)):  # type: ignore[misc]  # the fields are those of the contract
    """Where the time went, in seconds: the parts add up to `total_s`. What passed between an end and a restart by a
    person is not counted."""


class RunOut(schema_of(RunDocument)):  # type: ignore[misc]  # as above
    """A run."""

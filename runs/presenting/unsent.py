"""Sentences about output of a run that has not reached the server. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runs.ingest.troubles import Trouble
from trainyard.contract.node_status import OutputState

WAITS = "output_waits"
REFUSED = "output_refused"
CODES = (WAITS, REFUSED)


class NodeSending(NamedTuple):
    """Progress of one node in sending its part of the newest attempt."""

    node: str
    output: OutputState
    is_done: bool

    @property
    def num_refused(self) -> int:
        return self.output.num_refused


def remarks(sendings: Sequence[NodeSending]) -> list[Trouble]:
    """Return a sentence for each node whose output waits, or was refused."""
    found = []
    for one in sendings:
        if one.num_refused:
            named = one.output.refused
            listed = "; ".join(f"{file} ({why.rstrip('.')})" for file, why in named.items())
            more = f"; and {one.num_refused - len(named):,} more" if one.num_refused > len(named) else ""
            files = "1 output file" if one.num_refused == 1 else f"{one.num_refused:,} output files"
            sentence = f"The server refused {files} of {one.node}, which kept them: {listed}{more}."
            found.append(Trouble(REFUSED, one.num_refused, sentence))
        if one.output.problem and not one.is_done:
            why = one.output.problem.rstrip(".")
            found.append(Trouble(WAITS, 1, f"Output of {one.node} waits and is tried again. {why}."))
    return found

"""Remarks that a run's status does not make: an exit that hung, a loss that is not a number. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runs.ingest.troubles import Trouble
from trainyard.contract.answers.runs import SeriesSummary
from trainyard.contract.reports import AttemptReport
from trainyard.formats.words import listed

HUNG = "exit_hung"
NOT_A_NUMBER = "loss_not_a_number"
CODES = (HUNG, NOT_A_NUMBER)
MAX_NAMED = 4


def remarks(reports: Sequence[AttemptReport], summary: Mapping[str, SeriesSummary]) -> list[Trouble]:
    """Return remarks on the newest attempt, from the last reports of its nodes and the last values of its series."""
    return [*_of_exits(reports), *_of_losses(summary)]


def _of_exits(reports: Sequence[AttemptReport]) -> list[Trouble]:
    hung = [rank for report in reports for rank in report.ranks if rank.exit_hang and not rank.signal]
    if not hung:
        return []
    hung.sort(key=lambda rank: rank.rank)
    numbers = listed([str(rank.rank) for rank in hung], at_most=MAX_NAMED)
    if len(hung) == 1:
        words = f"The script of rank {numbers} was over, with exit code {hung[0].exit_code}, and its process "
        return [Trouble(HUNG, 1, f"{words}did not exit: it was ended. The script's exit code counts.")]
    words = f"The scripts of ranks {numbers} were over and their processes did not exit: they were ended."
    return [Trouble(HUNG, len(hung), f"{words} The scripts' exit codes count.")]


def _of_losses(summary: Mapping[str, SeriesSummary]) -> list[Trouble]:
    """Return a remark on losses that are not finite: such a value is stored as its name."""
    bad = {name: str(one["last"]) for name, one in summary.items() if _is_loss(name) and isinstance(one["last"], str)}
    if not bad:
        return []
    values = listed([f"{name} is {value}" for name, value in sorted(bad.items())], at_most=MAX_NAMED)
    how = "a smaller learning rate, more warm-up steps or gradient clipping are the usual remedies"
    return [Trouble(NOT_A_NUMBER, len(bad), f"The last {values}: the training has diverged; {how}.")]


def _is_loss(name: str) -> bool:
    return "loss" in name.lower()

"""Sentences about a script's ranks: which of them wait for each other, and whether they joined a group at all. Pure."""

from collections.abc import Sequence

from runs.ingest.troubles import Trouble
from runs.values.status import LIVE, Status
from trainyard.contract.base import SpecDocument
from trainyard.contract.reports import AttemptReport, RankReport
from trainyard.formats.words import listed

WAITING = "ranks_wait"
APART = "ranks_apart"
UNKNOWN = "ranks_unknown"
CODES = (WAITING, APART, UNKNOWN)

WAITED_S = 60.0
SHORT_S = 60.0
MAX_NAMED = 4


def remarks(status: Status, spec: SpecDocument, world_size: int, reports: Sequence[AttemptReport]) -> list[Trouble]:
    """Return remarks on the newest attempt; ``reports`` are the last reports of its nodes."""
    if "script" not in spec.get("task", {}) or world_size < 2:
        return []
    if status in LIVE:
        return _of_waiting(reports)
    ranks = [rank for report in reports for rank in report.ranks]
    groups = {rank.group for rank in ranks}
    if status != Status.SUCCEEDED or len(ranks) != world_size or len(groups) != 1:
        return []
    is_cold = groups == {"unknown"}
    if groups == {"none"} or (is_cold and _has_opened_a_port(ranks) is False):
        return [Trouble(APART, world_size, _of_ranks_apart(ranks, is_cold=is_cold))]
    if is_cold and spec["task"].get("python") and not _has_opened_a_port(ranks):
        sentence = "Whether its ranks joined a process group is not known: they ran in an interpreter of their own."
        return [Trouble(UNKNOWN, world_size, sentence)]
    return []


def _has_opened_a_port(ranks: Sequence[RankReport]) -> bool | None:
    """Return whether rank 0's node saw MASTER_PORT open; None where it did not look, or could not."""
    return next((rank.has_listened for rank in ranks if rank.rank == 0), None)


def _of_ranks_apart(ranks: Sequence[RankReport], *, is_cold: bool) -> str:
    took_s = max((rank.ended_at or 0.0) - (rank.started_at or 0.0) for rank in ranks)
    what = "none opened the port of a process group" if is_cold else "none joined a process group"
    if 0.0 < took_s < SHORT_S:
        within = f"{len(ranks)} ranks ended within {max(1.0, took_s):.0f} s"
        return f"{within} and {what}: did the script give up? Read its log."
    return f"{len(ranks)} ranks ran and {what}: each trained by itself."


def _of_waiting(reports: Sequence[AttemptReport]) -> list[Trouble]:
    """Return which ranks have waited long, by their node's clock, and for which. No report: not named."""
    waited: dict[int, float] = {}
    missing: dict[int, str] = {}
    for report in reports:
        for rank in report.ranks:
            if rank.group == "waiting" and not rank.is_over:
                waited[rank.rank] = report.at - (rank.waiting_since or 0.0)
            elif rank.group in ("none", "waiting"):
                missing[rank.rank] = "has ended" if rank.is_over else "has not called init_process_group()"
    long_s = max(waited.values(), default=0.0)
    if long_s < WAITED_S:
        return []
    verb = "has" if len(waited) == 1 else "have"
    words = f"{_ranks(sorted(waited))} {verb} waited {long_s:.0f} s in init_process_group()"
    if missing:
        who = listed([f"rank {rank}, which {why}" for rank, why in sorted(missing.items())], at_most=MAX_NAMED)
        return [Trouble(WAITING, len(waited), f"{words} for {who}.")]
    question = "do they all reach MASTER_ADDR and MASTER_PORT, and ask for the same world size?"
    return [Trouble(WAITING, len(waited), f"{words} without meeting: {question}")]


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"Rank {numbers[0]}"
    return f"Ranks {listed([str(number) for number in numbers], at_most=MAX_NAMED)}"

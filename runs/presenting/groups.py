"""Sentences about a script's ranks: which of them wait for each other, and whether they joined a group at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from runs.ingest.troubles import Trouble
from runs.status import LIVE, Status
from trainyard.formats.words import listed
from workers.contract import Document

WAITING = "ranks_wait"
APART = "ranks_apart"
UNKNOWN = "ranks_unknown"
CODES = (WAITING, APART, UNKNOWN)

WAITED_S = 60.0
SHORT_S = 60.0
MAX_NAMED = 4


def remarks(status: Status, spec: Document, world_size: int, reports: Sequence[Document]) -> list[Trouble]:
    """Return remarks on the newest attempt; ``reports`` are the last reports of its nodes."""
    if "script" not in spec.get("task", {}) or world_size < 2:
        return []
    if status in LIVE:
        return _of_waiting(reports)
    ranks = [rank for report in reports for rank in report.get("ranks") or []]
    groups = {rank.get("group", "unknown") for rank in ranks}
    if status != Status.SUCCEEDED or len(ranks) != world_size or len(groups) != 1:
        return []
    is_cold = groups == {"unknown"}
    if groups == {"none"} or (is_cold and _has_opened_a_port(ranks) is False):
        return [Trouble(APART, world_size, _of_ranks_apart(ranks, is_cold=is_cold))]
    if is_cold and spec["task"].get("python") and not _has_opened_a_port(ranks):
        sentence = "Whether its ranks joined a process group is not known: they ran in an interpreter of their own."
        return [Trouble(UNKNOWN, world_size, sentence)]
    return []


def _has_opened_a_port(ranks: Sequence[Document]) -> bool | None:
    """Return whether rank 0's node saw MASTER_PORT open; None where it did not look, or could not."""
    return next((rank.get("has_listened") for rank in ranks if rank.get("rank") == 0), None)


def _of_ranks_apart(ranks: Sequence[Document], *, is_cold: bool) -> str:
    took_s = max(float(rank.get("ended_at") or 0.0) - float(rank.get("started_at") or 0.0) for rank in ranks)
    what = "none opened the port of a process group" if is_cold else "none joined a process group"
    if 0.0 < took_s < SHORT_S:
        within = f"{len(ranks)} ranks ended within {max(1.0, took_s):.0f} s"
        return f"{within} and {what}: did the script give up? Read its log."
    return f"{len(ranks)} ranks ran and {what}: each trained by itself."


def _of_waiting(reports: Sequence[Document]) -> list[Trouble]:
    """Return which ranks have waited long, by their node's clock, and for which. No report: not named."""
    waited: dict[int, float] = {}
    missing: dict[int, str] = {}
    for report in reports:
        for rank in report.get("ranks") or []:
            group, is_over = rank.get("group", "unknown"), rank.get("ended_at") is not None
            if group == "waiting" and not is_over:
                waited[rank["rank"]] = float(report.get("at") or 0.0) - float(rank.get("waiting_since") or 0.0)
            elif group in ("none", "waiting"):
                missing[rank["rank"]] = "has ended" if is_over else "has not called init_process_group()"
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

"""Remarks that a run's status does not make: output that has not reached the server, ranks that slow it down or
wait, an exit that hung, a loss that is not a number. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runs.ingest.troubles import Trouble
from runs.life.watching.slow_ranks import slow_sentences
from runs.models import Attempt
from runs.values.status import LIVE, Status
from trainyard.contract.answers.runs import SeriesSummary
from trainyard.contract.base import SpecDocument
from trainyard.contract.node_status import OutputState
from trainyard.contract.reports import AttemptReport, RankReport
from trainyard.formats.words import listed

OUTPUT_CODES = WAITS, REFUSED = "output_waits", "output_refused"


class NodeSending(NamedTuple):
    """Progress of one node in sending its part of the newest attempt."""

    node: str
    output: OutputState
    is_done: bool


def output_remarks(sendings: Sequence[NodeSending]) -> list[Trouble]:
    """Return a sentence for each node whose output waits, or was refused."""
    found = []
    for one in sendings:
        if num := one.output.num_refused:
            named = one.output.refused
            listed = "; ".join(f"{file} ({why.rstrip('.')})" for file, why in named.items())
            more = f"; and {num - len(named):,} more" if num > len(named) else ""
            files = "1 output file" if num == 1 else f"{num:,} output files"
            found.append(
                Trouble(REFUSED, num, f"The server refused {files} of {one.node}, which kept them: {listed}{more}.")
            )
        if one.output.problem and not one.is_done:
            why = one.output.problem.rstrip(".")
            found.append(Trouble(WAITS, 1, f"Output of {one.node} waits and is tried again. {why}."))
    return found


# Ranks that slow a live run down, or hardly use what they hold, as remarks of its document.

SLOW, IDLE = "slow-ranks", "idle"


def slow_remarks(attempt: Attempt) -> list[Trouble]:
    idle = [Trouble(IDLE, 1, mark.sentence)] if (mark := attempt.idle_mark) else []
    if attempt.ended_at is not None or not attempt.slow_ranks:
        return idle
    found = attempt.stragglers
    return [Trouble(SLOW, len(found), " ".join(slow_sentences(found, num_ranks=attempt.world_size))), *idle]


END_CODES = HUNG, NOT_A_NUMBER = "exit_hung", "loss_not_a_number"
MAX_NAMED = 4


def end_remarks(reports: Sequence[AttemptReport], summary: Mapping[str, SeriesSummary]) -> list[Trouble]:
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
    losses = {name: one["last"] for name, one in summary.items() if "loss" in name.lower()}
    bad = {name: last for name, last in losses.items() if isinstance(last, str)}
    if not bad:
        return []
    values = listed([f"{name} is {value}" for name, value in sorted(bad.items())], at_most=MAX_NAMED)
    how = "a smaller learning rate, more warm-up steps or gradient clipping are the usual remedies"
    return [Trouble(NOT_A_NUMBER, len(bad), f"The last {values}: the training has diverged; {how}.")]


CODES = WAITING, APART, UNKNOWN = "ranks_wait", "ranks_apart", "ranks_unknown"
WAITED_S = SHORT_S = 60.0


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

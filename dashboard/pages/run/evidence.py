"""Evidence above the tabs of a run's page when something is wrong or waited for: a sentence, its proof folded away."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from runs.ingest import troubles
from runs.life.hangs import stacks_text
from runs.models import Run
from runs.presenting import run_remarks
from runs.values.status import Status
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject, convert
from trainyard.contract.causes import CauseClass, RankStack

# status -> (colour, headline): the sentence under it is the run's own reason
HEADLINES = {
    Status.FAILED: ("red", "This run failed"),
    Status.LOST: ("rust", "This run is out of contact"),
    Status.RECOVERING: ("amber", "This run is recovering"),
    Status.RESIZING: ("amber", "This run is resizing"),
    Status.QUEUED: ("grey", "This run is waiting"),
    Status.STOPPING: ("grey", "This run is stopping"),
    Status.CANCELLED: ("grey", "This run was cancelled"),
    Status.PAUSED: ("violet", "This run is paused"),
}
MAX_CHARS = 12_000
HARMLESS = (troubles.REPEATED, run_remarks.UNKNOWN)
# class of the cause -> the word beside the sentence
CAUSE_WORDS = {one: one.replace("-", " ") for one in CauseClass} | {
    CauseClass.USER_ERROR: "error in the code", CauseClass.DATA_PROBLEM: "data", CauseClass.NODE_UNFIT: "unfit node",
    CauseClass.REFUSED: "refused by a node", CauseClass.GPU_OUT_OF_MEMORY: "out of GPU memory",
    CauseClass.COLLECTIVE_TIMEOUT: "collective timed out", CauseClass.GPU_FAULT: "GPU fault",
    CauseClass.INTERRUPTED: "node shut down", CauseClass.UNKNOWN: "unknown cause",
}  # fmt: skip
CAUSED = (Status.FAILED, Status.RECOVERING)


class Remarks(NamedTuple):
    """Sentences beside the status on a run's page: about its ranks, and about output and records on their way."""

    ranks: list[str]
    output: list[str]  # some of it has not come
    bad: list[str]  # some record is missing, or may be
    harmless: list[str]


def remarks(troubles: Sequence[run_answers.Trouble]) -> Remarks:
    found = Remarks([], [], [], [])
    lists = {
        **dict.fromkeys((*run_remarks.CODES, *run_remarks.END_CODES, run_remarks.IDLE), found.ranks),
        **dict.fromkeys(run_remarks.OUTPUT_CODES, found.output),
        **dict.fromkeys(HARMLESS, found.harmless),
        run_remarks.SLOW: [],  # the page has notes with a button for these
    }
    for one in troubles:
        lists.get(one["code"], found.bad).append(one["sentence"])
    return found


def trouble(run: Run) -> dict[str, object] | None:
    if run.status == Status.RUNNING:
        return _hang(run)
    if run.status not in HEADLINES:
        return None
    colour, headline = HEADLINES[Status(run.status)]
    if run.is_local and run.status == Status.LOST:
        colour, headline = "grey", "This run has no end yet"
    if run.is_pruned:
        headline = "This run was pruned"
    found = dict(run.reason_evidence or {})
    traceback = _traceback(found)
    if not traceback and run.status == Status.FAILED:
        traceback = _first_traceback_of_ranks(run)
    if run.is_local:  # by process; one alone is what the sentence says
        errors = found.pop("errors", {})
        found |= {f"process {producer[:8]}": text for producer, text in errors.items()} if len(errors) > 1 else {}
    facts = [(name.replace("_", " "), _text(value)) for name, value in found.items() if value not in (None, "", [], {})]
    attempt = run.attempts.order_by("-number").first() if run.status in CAUSED else None
    cause = attempt.known_cause if attempt else None
    return {
        "colour": colour,
        "headline": headline,
        "sentence": run.reason_sentence,
        "traceback": traceback[:MAX_CHARS],
        "facts": facts,
        "cause_word": CAUSE_WORDS[cause.cause_class] if cause else "",
        "consequences": [one.sentence for one in cause.consequences] if cause else [],
    }


def _hang(run: Run) -> dict[str, object] | None:
    """Return what blocks the ranks of a run that counts as running; None where nothing does."""
    attempt = run.live_attempt()
    hang = attempt.known_hang if attempt is not None else None
    if hang is None:
        return None
    words = {"headline": "This run makes no step", "sentence": hang.sentence}
    return {"colour": "red", **words, "traceback": stacks_text(hang.stacks)[:MAX_CHARS], "facts": []}


def _traceback(found: JsonObject) -> str:
    """Take the traceback, or the last lines, out of the evidence; the rest of the lines is on the tab of the logs."""
    if stacks := found.pop("stacks", None):
        return stacks_text(convert(stacks, list[RankStack]))
    texts = [text for name in ("traceback", "lines", "log") if (text := found.pop(name, None))]
    if output := found.pop("output", None):
        before = [one if isinstance(one, list) else str(one).rstrip().splitlines() for one in texts[:1]]
        texts = [[*before[0], "", "Last lines of its standard output:", *output]] if texts else [output]
    if texts:
        return "\n".join(map(str, texts[0])) if isinstance(texts[0], list) else str(texts[0])
    error = found.get("error")
    if isinstance(error, dict) and error.get("traceback"):
        found.pop("error")
        return str(error["traceback"])
    return ""


def _first_traceback_of_ranks(run: Run) -> str:
    """The first rank that ended with an error in the newest attempt: the others usually died of it."""
    attempt = run.attempts.order_by("-number").first()
    if attempt is None:
        return ""
    ranks = [rank for placement in attempt.placements.all() for rank in placement.reported.ranks]
    ranks.sort(key=lambda rank: rank.ended_at or float("inf"))
    failed = ((rank.rank, rank.error.traceback) for rank in ranks if rank.error and rank.error.traceback)
    return next((f"rank {rank}:\n{traceback}" for rank, traceback in failed), "")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))[:MAX_CHARS]
    return (json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value))[:MAX_CHARS]

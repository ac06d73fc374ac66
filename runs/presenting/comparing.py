"""Runs that the address of a comparison asks for."""

from typing import NamedTuple

from django.http import QueryDict

from runs.finding.language import MAX_LENGTH, FilterError
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.rights.access import Someone, visible_runs

MAX_RUNS = 1_000
MAX_CHARS = 500  # of a parameter
OF_SWEEP = "sweep:"  # how the tag begins that all runs of a sweep have


class Asked(NamedTuple):
    """Runs that the address asks for: named ones, and those of a filter, a project or a tag without some."""

    named: list[str]
    fitting: str
    project: str
    tag: str
    has_trials: bool
    without: list[str]

    @property
    def is_filter(self) -> bool:
        return bool(self.fitting or self.project or self.tag)


def text_of(query: QueryDict, name: str) -> str:
    return query.get(name, "").strip()[:MAX_CHARS]


def asked_of(query: QueryDict) -> Asked:
    named, without = (
        list(dict.fromkeys(one[:MAX_CHARS] for one in query.getlist(name) if one)) for name in ("run", "without")
    )
    tag = text_of(query, "tag")
    fitting = query.get("filter", "")[: MAX_LENGTH + 1]
    has_trials = text_of(query, "trials") == "1" or tag.startswith(OF_SWEEP)
    return Asked(named, fitting, text_of(query, "project"), tag, has_trials, without)


def compared_runs(user: Someone, asked: Asked) -> tuple[list[Run], str]:
    """Return those of the named runs that the person may see, as they were named, and behind them those that fit, the
    newest first; and the sentence about runs that are not shown: how many, and never which."""
    sentences = []
    ids = asked.named[:MAX_RUNS]
    visible = visible_runs(user).in_bulk(ids)
    runs = [visible[run_id] for run_id in ids if run_id in visible]
    if len(asked.named) > MAX_RUNS:
        sentences.append(f"This address names {len(asked.named)} runs; the first {MAX_RUNS} are compared.")
    if num_missing := len(ids) - len(runs):
        words = "One run of this address is" if num_missing == 1 else f"{num_missing} runs of this address are"
        sentences.append(f"{words} not shown: deleted, or not yours to see.")
    if asked.is_filter:
        try:
            found = find_runs(
                user,
                project=asked.project,
                tags=[asked.tag] if asked.tag else (),
                fitting=asked.fitting,
                has_trials=asked.has_trials,
            ).exclude(pk__in={*asked.named, *asked.without})
            fitting = list(found.order_by("-created_at", "-pk")[: MAX_RUNS + 1 - len(runs)])
        except FilterError as error:
            fitting = []
            place = f" It is at character {error.position + 1}." if asked.fitting else ""
            sentences.append(f"This filter cannot be read. {error.message}{place}")
        if len(runs) + len(fitting) > MAX_RUNS:
            sentences.append(f"More than {MAX_RUNS:,} runs fit; the newest {MAX_RUNS:,} are compared.")
        elif not fitting and not sentences:
            sentences.append("No run that you may see fits this filter.")
        runs = [*runs, *fitting][:MAX_RUNS]
    return runs, " ".join(sentences)

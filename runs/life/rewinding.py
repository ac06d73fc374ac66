"""Going back to an earlier step and leaving out the batches of some steps: what is refused, and the decision itself.

The ranks end at once, without a checkpoint: what they have is not wanted any more. The next attempt goes on from the
newest checkpoint up to that step, and its batches leave out those of the skipped steps. The decision is kept with the
run, so that every later attempt leaves them out too.
"""

from datetime import datetime

from django.db import transaction

from runs.life import stopping
from runs.models import Attempt, Run, User
from runs.models.attempts import REWIND
from runs.models.runs import StaleStatus
from runs.records.checkpoints import read as checkpoints
from runs.records.metrics.models import Telemetry
from runs.values.columns import MetricAlarm, Rewind
from runs.values.refused import Refused
from runs.values.run_config import origin_of
from runs.values.status import Status
from trainyard.contract.base import to_builtins
from trainyard.contract.orders import SkippedSteps
from trainyard.formats.words import listed
from trainyard.spec import Problem, SpecError
from trainyard.spec.models import KINDS, RecipeSpec
from trainyard.spec.sections.watch import WatchRule

REWOUND = "rewinding"
MOST_REWINDS = 100
WAITING = (Status.PAUSED, Status.FAILED, Status.CANCELLED)  # no rank is there: it is queued again


def go_back(
    run: Run, *, to_step: int, first: int, last: int, actor: User | None, now: datetime, why: str = "", rule: str = ""
) -> Rewind:
    """Have the run go back. ``why`` is what a rule has found, and ``rule`` its metric.

    Raises SpecError for steps that do not go together, Refused for what the run's state does not allow, StaleStatus
    where it has changed since it was read.
    """
    _refuse_what_has_no_batches(run)
    _refuse_steps(to_step, first, last)
    attempt = _attempt_to_end(run)
    _refuse_the_future(run, to_step, last)
    source = _source(run, to_step)
    by = actor.username if actor else ""
    rewind = Rewind(fence=run.fence, to_step=to_step, first=first, last=last, at=now.timestamp(), by=by, rule=rule)
    who = f"{actor} asked to go back to step {to_step:,}" if actor else f"{why} Its rule goes back to step {to_step:,}"
    words = f"{who} and to leave out {batches_of(rewind)}. It goes on from {source}."
    with transaction.atomic():
        rows = [*run.rewinds, to_builtins(rewind)]
        if not Run.objects.filter(pk=run.pk, rewinds=run.rewinds).update(rewinds=rows):
            raise StaleStatus(f"run {run.pk} was sent back by somebody else")
        run.rewinds = rows
        if attempt is None:
            run.move_to(Status.QUEUED, code=REWOUND, sentence=words, actor=actor)
        else:
            stopping.begin(run, attempt, why=REWIND, code=REWOUND, sentence=words, now=now, actor=actor, at_once=True)
    return rewind


def go_back_by_rule(attempt: Attempt, alarm: MetricAlarm, rule: WatchRule, now: datetime) -> None:
    """Go back to the last checkpoint before a value that broke a rule, as often as the rule lets it. Raises what
    ``go_back`` raises."""
    run = attempt.run
    before = sum(one.rule == rule.metric for one in run.known_rewinds)
    if before >= rule.rewinds:
        times = "once" if before == 1 else f"{before} times"
        raise Refused("rewound-enough", f"It was sent back {times} by this rule, and that is as often as it may be.")
    first, last = skipped_for(alarm)
    found = checkpoints.newest_up_to(run.pk, first - 1)
    if found is None:
        raise Refused("no-checkpoint", f"It has no checkpoint before step {first:,} to go back to.")
    go_back(run, to_step=found.step, first=first, last=last, actor=None, now=now, why=alarm.sentence, rule=rule.metric)


def skipped_for(alarm: MetricAlarm) -> tuple[int, int]:
    """Return the first and the last step to skip: the one before is among them, whose update may have broken the
    value."""
    return max(1, alarm.first_step - 1), alarm.first_step if alarm.kind == "nan" else alarm.last_step


def skips_of(run: Run) -> list[SkippedSteps]:
    """Return what its ranks are to leave out, in the order in which it was decided."""
    return [SkippedSteps(one.fence, one.first, one.last) for one in run.known_rewinds]


def batches_of(rewind: Rewind) -> str:
    if rewind.first == rewind.last:
        return f"the batch of step {rewind.first:,}"
    return f"the batches of steps {rewind.first:,} to {rewind.last:,}"


def left_out(run: Run) -> str:
    """Say what the ranks leave out."""
    parts = [batches_of(one) for one in run.known_rewinds]
    return f"they leave out {listed(parts, at_most=3)}"


def ended_sentence(run: Run) -> str:
    """Return the sentence of an attempt whose ranks were ended to go back."""
    entries = run.known_rewinds
    where = f" to step {entries[-1].to_step:,}, without {batches_of(entries[-1])}" if entries else ""
    return f"Ended to go back{where}."


def refuse_without_steps(run: Run, *, elsewhere: str, script: str, nothing: str) -> None:
    """Refuse a run whose steps Trainyard does not know. The words end the sentence: of a run that was logged elsewhere,
    of a script, and of a recipe that trains nothing."""
    task = run.spec.get("task", {})
    if run.is_local:
        raise Refused("logged-elsewhere", f"Run {run.name} was logged outside of Trainyard: {elsewhere}")
    if "script" in task:
        raise Refused("script", f"Run {run.name} is a script, {script}")
    if not issubclass(KINDS.get(str(task.get("recipe")), RecipeSpec), RecipeSpec):
        raise Refused("no-steps", f"Run {run.name} measures its nodes and trains nothing: {nothing}")


def _refuse_what_has_no_batches(run: Run) -> None:
    refuse_without_steps(
        run,
        elsewhere="nobody here can restart it.",
        script="which reads its data by itself: Trainyard cannot leave out batches of it. Have the script skip them, "
        "and restart it.",
        nothing="it has no step to go back to.",
    )
    if len(run.rewinds) >= MOST_REWINDS:
        raise Refused("rewound-enough", f"Run {run.name} was sent back {MOST_REWINDS} times, and more is not kept.")


def _refuse_steps(to_step: int, first: int, last: int) -> None:
    if to_step < 0:
        raise SpecError([Problem("to", f"{to_step} is no step; accepted: 0 or more")])
    if first > last:
        raise SpecError([Problem("skip", f"{first}:{last} has its first step behind its last")])
    if first <= to_step:
        words = f"step {first} is trained before step {to_step} ends: skip steps behind {to_step}"
        raise SpecError([Problem("skip", words)])


def _attempt_to_end(run: Run) -> Attempt | None:
    """Return the attempt whose ranks end for it; None where no rank is there. Raises Refused in between."""
    attempt = run.live_attempt()
    if run.status in WAITING and attempt is None:
        return None
    if run.status == Status.RUNNING and attempt is not None and attempt.go is not None:
        return attempt
    way = "Clone it to train again." if run.status == Status.SUCCEEDED else "Ask again when it trains."
    raise Refused("not-running", f"Run {run.name} is {run.status}. {way}")


def _refuse_the_future(run: Run, to_step: int, last: int) -> None:
    telemetry = Telemetry.objects.filter(pk=run.pk).first()
    step = telemetry.step if telemetry is not None and telemetry.attempt == run.fence else None
    if step is None:
        raise Refused("no-step-yet", f"Run {run.name} has not trained a step in this attempt yet.")
    for one in (to_step, last):
        if one > step:
            raise Refused("future", f"Step {one:,} has not been trained yet: run {run.name} is at step {step:,}.")


def _source(run: Run, to_step: int) -> str:
    """Return in words what it goes on from. Raises Refused where there is no checkpoint that old."""
    if found := checkpoints.newest_up_to(run.pk, to_step):
        return f"the checkpoint of step {found.step:,}"
    origin = origin_of(run.spec)
    if origin is not None and origin.step <= to_step:
        return f"the checkpoint {origin}, with which it began"
    if to_step == 0 and origin is None:
        return "the start"
    oldest = checkpoints.oldest(run.pk)
    what = f"Its oldest is of step {oldest.step:,}." if oldest else "It has none."
    way = "" if origin is not None else " To go back to step 0 starts anew."
    raise Refused("no-checkpoint", f"Run {run.name} has no checkpoint up to step {to_step:,}. {what}{way}")

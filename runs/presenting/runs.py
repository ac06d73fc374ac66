"""A run as people and programs see it: its REST document, and the three lamps. Used by the API and by pages alike."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from runs.ingest import troubles
from runs.life.reconcile.judge import INCOMPLETE
from runs.models import Placement, Run
from runs.presenting import run_remarks, server_state
from runs.presenting.listing import Newest, newest_of, newest_of_all
from runs.presenting.measured import Throughput, throughputs
from runs.presenting.stamps import document_of, stamp
from runs.records.metrics import progress
from runs.records.metrics.models import Telemetry
from runs.records.points import read
from runs.records.time_use.split import TimeUse
from runs.records.time_use.sums import times_shown, times_written
from runs.recovery.policy import NOT_COUNTED, num_lost
from runs.values.status import FINAL, Phase, Status
from trainyard.contract.answers.runs import Lamp, Lamps, LeftOutNode, Restarts, Rewind, RunDocument, SeriesSummary
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.spec.sections.restarts import RestartRules
from trainyard.spec.values.durations import words_of

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"
INGEST_AWAY = "Ingest is not running: what came since waits on the nodes."
STILL_AMBER_S, STILL_RED_S = 60.0, 300.0
_WAITS = {Status.PAUSED: "paused", Status.QUEUED: "waiting"}
ROW_LAG_S = 3.0  # a row knows its node's last word only so exactly


class LampFacts(NamedTuple):
    """Facts from which the lamps are made. Ages in seconds; None where the thing never happened."""

    status: Status
    reason_code: str = ""
    num_nodes: int = 0
    num_training: int = 0  # nodes whose supervisor says that its ranks run, or that they have ended
    num_ended: int = 0  # of these, those whose ranks have ended
    has_ended_attempt: bool = False  # the newest there is
    was_never_placed: bool = False
    silent_nodes: tuple[str, ...] = ()
    step: int | None = None
    steps: int | None = None
    step_age_s: float | None = None
    median_step_s: float | None = None
    still_s: float | None = None  # for so long none of its ranks has printed or computed anything
    hang: str = ""  # what keeps its ranks, in a sentence
    record_age_s: float | None = None
    control_silence_s: float = 0.0  # control is away: nobody has written down since then what nodes report
    ingest_is_away: bool = False  # newer records wait on the nodes
    unsent_nodes: tuple[str, ...] = ()  # which have not said yet that all of their output was sent
    num_refused: int = 0  # output files that the server refused
    is_local: bool = False  # logged elsewhere: nobody here sees its processes, and its records come when they are sent


def lamps(facts: LampFacts) -> Lamps:
    if facts.is_local:
        return _lamps_of_elsewhere(facts)
    return {"process": _process(facts), "progress": _progress(facts), "telemetry": _telemetry(facts)}


def _process(facts: LampFacts) -> Lamp:
    if facts.status in FINAL:
        return _lamp("process", GREY, "No rank was started." if facts.was_never_placed else "The ranks have ended.")
    if not facts.num_nodes:
        return _lamp("process", GREY, _between_attempts(facts) if facts.has_ended_attempt else "No process yet.")
    if facts.control_silence_s:
        silence = f"Control has not worked for {facts.control_silence_s:,.0f} s"
        return _lamp("process", AMBER, f"{silence}: whether the ranks exist is not known.")
    if facts.silent_nodes:
        names = ", ".join(facts.silent_nodes)
        colour = RED if facts.status == Status.LOST else AMBER
        return _lamp("process", colour, f"Out of contact with {names}: whether the ranks exist is not known.")
    if facts.num_ended == facts.num_nodes:
        return _lamp("process", GREY, "The ranks have ended; what they wrote is on its way.")
    if facts.num_training < facts.num_nodes:
        return _lamp("process", AMBER, f"Ranks run on {facts.num_training} of {facts.num_nodes} nodes.")
    word = "node says" if facts.num_nodes == 1 else f"{facts.num_nodes} nodes say"
    return _lamp("process", GREEN, f"The {word} that the ranks run.")


def _between_attempts(facts: LampFacts) -> str:
    if facts.status == Status.PAUSED:
        return "The ranks have ended; the next attempt begins when it is resumed."
    goes_on = facts.status not in (Status.RUNNING, Status.STOPPING)
    return f"The ranks of the last attempt have ended{'; the next has not begun' if goes_on else ''}."


def _progress(facts: LampFacts) -> Lamp:
    if facts.hang and facts.status not in FINAL:
        return _lamp("progress", RED, facts.hang)
    if facts.step is None and facts.status == Status.RUNNING and facts.still_s is not None:
        if facts.still_s < STILL_AMBER_S:
            return _lamp("progress", GREEN, "No step is logged; the ranks print or compute.")
        colour = RED if facts.still_s >= STILL_RED_S else AMBER
        words = f"No step is logged, and for {words_of(facts.still_s)} no rank has printed or computed anything."
        return _lamp("progress", colour, words)
    where = "" if facts.step is None else f"Step {facts.step:,}" + (f" of {facts.steps:,}" if facts.steps else "")
    if facts.status in (Status.PAUSED, Status.QUEUED) and where:
        return _lamp("progress", GREY, f"{where}; {_WAITS[facts.status]}.")
    if facts.status in FINAL or facts.step is None or facts.step_age_s is None:
        return _lamp("progress", GREY, f"{where}, ended." if where and facts.status in FINAL else "No step yet.")
    if facts.ingest_is_away and facts.step_age_s > CONTACT_LOST_S:
        return _lamp("progress", AMBER, f"{where}, {facts.step_age_s:,.0f} s ago. {INGEST_AWAY}")
    usual_s = facts.median_step_s or 1.0
    amber_s, red_s = max(15.0, 10 * usual_s), max(60.0, 30 * usual_s)
    colour = RED if facts.step_age_s > red_s else AMBER if facts.step_age_s > amber_s else GREEN
    pace = f"; usually one takes {facts.median_step_s:.3g} s" if facts.median_step_s else ""
    return _lamp("progress", colour, f"{where}, {facts.step_age_s:,.0f} s ago{pace}.")


def _telemetry(facts: LampFacts) -> Lamp:
    if facts.reason_code == INCOMPLETE:
        return _lamp("telemetry", RED, "Some of what the ranks wrote has not arrived.")
    if facts.record_age_s is None:
        return _lamp("telemetry", GREY, "No record yet.")
    if facts.status == Status.SUCCEEDED:
        return _arrived(facts)
    if facts.status in FINAL:
        return _lamp("telemetry", GREY, "No more records are expected.")
    if facts.status in (Status.PAUSED, Status.QUEUED):
        return _lamp("telemetry", GREY, f"No more records are expected while it is {_WAITS[facts.status]}.")
    if facts.ingest_is_away and facts.record_age_s > CONTACT_LOST_S:
        return _lamp("telemetry", AMBER, f"The last record arrived {facts.record_age_s:,.0f} s ago. {INGEST_AWAY}")
    usual_s = facts.median_step_s or 1.0
    amber_s, red_s = max(15.0, 5 * usual_s), max(60.0, 20 * usual_s)
    colour = RED if facts.record_age_s > red_s else AMBER if facts.record_age_s > amber_s else GREEN
    return _lamp("telemetry", colour, f"The last record arrived {facts.record_age_s:,.0f} s ago.")


def _arrived(facts: LampFacts) -> Lamp:
    """Return the lamp of a run that succeeded and whose records all arrived: whether its output has, too."""
    if facts.num_refused:
        files = "1 output file was" if facts.num_refused == 1 else f"{facts.num_refused:,} output files were"
        return _lamp("telemetry", RED, f"Every record arrived, but {files} refused.")
    if facts.unsent_nodes:
        names = ", ".join(facts.unsent_nodes)
        return _lamp("telemetry", AMBER, f"Every record arrived; output of {names} is still on its way.")
    return _lamp("telemetry", GREEN, "Everything arrived.")


def _lamps_of_elsewhere(facts: LampFacts) -> Lamps:
    """Return the lamps of a run logged elsewhere: only heartbeats show it is at work; silence proves nothing."""
    is_live = facts.status == Status.RUNNING
    where = "No step yet." if facts.step is None else f"Step {facts.step:,} is the last that was sent."
    if is_live:
        came = "nothing of it yet" if facts.record_age_s is None else f"the last record {facts.record_age_s:,.0f} s ago"
        records = _lamp("telemetry", GREEN, f"It runs elsewhere and sends what it logs: {came}.")
    elif facts.record_age_s is None:
        records = _lamp("telemetry", GREY, "No record yet.")
    elif facts.status in (Status.SUCCEEDED, Status.FAILED):
        records = _lamp("telemetry", GREEN, "Everything that was sent arrived.")
    else:
        records = _lamp("telemetry", GREY, f"The last record was sent {facts.record_age_s:,.0f} s ago.")
    running = "It runs elsewhere: nobody here sees its processes."
    unknown = running if is_live else "It runs elsewhere, or ran: nobody here sees it."
    process = "It ended where it ran." if facts.status in FINAL else unknown
    return {
        "process": _lamp("process", GREY, process),
        "progress": _lamp("progress", GREY, where),
        "telemetry": records,
    }


def _lamp(name: str, colour: str, sentence: str) -> Lamp:
    return {"name": name, "colour": colour, "sentence": sentence}


def run_document(
    run: Run,
    telemetry: Telemetry | None,
    summary: dict[str, SeriesSummary] | None,
    now: datetime,
    throughput: Throughput | None = None,
    time: TimeUse | None = None,
    newest: Newest | None = None,
) -> RunDocument:
    """Return the run in its REST shape. For many runs, find their ``newest`` attempts together: each needs its own."""
    newest = newest or newest_of(run)
    speed = throughput or Throughput()
    sendings = sendings_of(newest.placements)
    facts = facts_of(run, newest, sendings, telemetry or Telemetry(run_id=run.pk), now)
    found: RunDocument = document_of(
        run,
        RunDocument.__annotations__,
        job=run.job_id,
        parent=run.parent_id,
        reason={"code": run.reason_code, "sentence": run.reason_sentence, "evidence": run.reason_evidence},
        lamps=lamps(facts),
        step=facts.step,
        progress=share_done(facts),
        attempt=newest.attempt.number if newest.attempt else None,
        restarts=restarts_document(run, now),
        rewinds=[
            Rewind(to_step=one.to_step, first=one.first, last=one.last, at=stamp(one.at), by=one.by, rule=one.rule)
            for one in run.known_rewinds
        ],
        troubles=[asdict(one) for one in _troubles(run, newest, sendings, telemetry, summary)],
        throughput=speed._asdict(),
        time=time.as_document() if time is not None else None,
        summary=summary or {},
    )
    return found


def _troubles(
    run: Run,
    newest: Newest,
    sendings: Sequence[run_remarks.NodeSending],
    telemetry: Telemetry | None,
    summary: dict[str, SeriesSummary] | None,
) -> list[troubles.Trouble]:
    of_records = troubles.described(telemetry.troubles if telemetry else {})
    attempt = newest.attempt
    if attempt is None:
        return [*run_remarks.end_remarks([], summary or {}), *of_records]
    reports = [placement.reported for placement in newest.placements]
    of_ranks = run_remarks.remarks(Status(run.status), run.spec, attempt.world_size, reports)
    of_end = run_remarks.end_remarks(reports, summary or {})
    return [*of_ranks, *run_remarks.slow_remarks(attempt), *of_end, *run_remarks.output_remarks(sendings), *of_records]


def sendings_of(placements: Sequence[Placement]) -> list[run_remarks.NodeSending]:
    return [run_remarks.NodeSending(one.node.name, one.output_state, _is_sent(one)) for one in placements]


def _is_sent(placement: Placement) -> bool:
    """Return whether all that its node sends unasked has come; what is left there may wait for a person's word."""
    return placement.done_at is not None or placement.output_state.is_sent


def run_documents(runs: Sequence[Run]) -> list[RunDocument]:
    """Return the runs of a list in their REST shape, in few queries for any number of them: where the time of a run
    went that goes on is not among it."""
    return _documents(runs, times_written(runs))


def single_document(run: Run) -> RunDocument:
    """Return one run in its REST shape, whole."""
    return _documents([run], times_shown([run], timezone.now()))[0]


def _documents(runs: Sequence[Run], times: Mapping[str, TimeUse]) -> list[RunDocument]:
    newest = newest_of_all(runs)
    ids = [run.pk for run in runs]
    telemetry, summaries, speeds = progress.telemetry(ids), read.short_summaries(ids), throughputs(ids)
    now = timezone.now()
    return [
        run_document(run, telemetry[run.pk], summaries[run.pk], now, speeds[run.pk], times.get(run.pk), newest[run.pk])
        for run in runs
    ]


def facts_of(
    run: Run, newest: Newest, sendings: Sequence[run_remarks.NodeSending], telemetry: Telemetry, now: datetime
) -> LampFacts:
    attempt = newest.attempt
    placements = newest.placements if attempt is not None and attempt.ended_at is None else ()
    control_silence_s = server_state.control_silence_s() if placements else 0.0
    limit_s = CONTACT_LOST_S + ROW_LAG_S + control_silence_s
    silent = [one for one in placements if one.phase not in (Phase.PREPARING, Phase.ENDED) and one.age_s(now) > limit_s]
    return LampFacts(
        status=Status(run.status),
        reason_code=run.reason_code,
        num_nodes=len(placements),
        num_training=sum(placement.phase in (Phase.RUNNING, Phase.ENDED) for placement in placements),
        num_ended=sum(placement.phase == Phase.ENDED for placement in placements),
        has_ended_attempt=attempt is not None and attempt.ended_at is not None,
        was_never_placed=attempt is None,
        silent_nodes=tuple(placement.node.name for placement in silent),
        hang=hang.sentence if placements and attempt and (hang := attempt.known_hang) else "",
        step=step_of(run, telemetry),
        steps=run.steps,
        step_age_s=None if telemetry.step_at is None else max(0.0, now.timestamp() - telemetry.step_at),
        median_step_s=telemetry.median_step_s,
        record_age_s=None if (at := telemetry.last_record_at) is None else max(0.0, (now - at).total_seconds()),
        control_silence_s=control_silence_s,
        ingest_is_away=bool(placements) and server_state.ingest_is_away(),
        unsent_nodes=tuple(one.node for one in sendings if not one.is_done),
        num_refused=sum(one.output.num_refused for one in sendings),
        still_s=_still_s(placements, now),
        is_local=run.is_local,
    )


def step_of(run: Run, telemetry: Telemetry) -> int | None:
    """Return the last step of the run's training."""
    return telemetry.step if run.counts_steps else None


def _still_s(placements: Sequence[Placement], now: datetime) -> float | None:
    """Return for how long no rank has done anything, by the nodes' own clocks; None where a node does not tell."""
    quiet = []
    for one in placements:
        report = one.reported
        for rank in [rank for rank in report.ranks if not rank.is_over]:
            moved = [at for at in (rank.printed_at, rank.computed_at) if at]
            if not moved:
                return None
            quiet.append(report.at - max(moved) + one.age_s(now))
    return max(0.0, min(quiet)) if quiet else None


def share_done(facts: LampFacts) -> float | None:
    """Return the share of the steps that is done, 0 to 1; None for a script, whose end nobody knows."""
    if facts.steps is None:
        return None
    if facts.status == Status.SUCCEEDED:
        return 1.0
    return min(1.0, max(0, facts.step or 0) / facts.steps) if facts.steps else 0.0


# The restarts of a run as people and programs see them.


def restarts_document(run: Run, now: datetime) -> Restarts:
    recovery = run.restarts
    rules = RestartRules.of(run.spec)
    is_free = recovery.cause in NOT_COUNTED
    return {
        "max": rules.max,
        "used": recovery.number - is_free if now.timestamp() - recovery.failed_at <= rules.window_s else 0,
        "total": recovery.total,
        "due_at": stamp(run.recover_at),
        "left_out": [
            LeftOutNode(node=one.name, why=one.why, until=stamp(one.until), is_excluded=one.is_excluded)
            for one in (() if run.is_final else recovery.left_out_at(now.timestamp()))
        ],
        "source": recovery.source,
        "from_step": recovery.from_step if recovery.source else None,
        "steps_lost": num_lost(recovery) if recovery.source else None,
    }

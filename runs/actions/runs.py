"""Requests about a run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from runs.actions.bundles import pin_code
from runs.actions.checking import Launchable, check_launch
from runs.actions.continuing import newest_checkpoint
from runs.actions.queueing import why_too_long
from runs.actions.starting import array_tag, keep_terms
from runs.causes import cause_of_stop
from runs.inputs.datasets import unresolved
from runs.inputs.repositories.pinning import PinnedCode
from runs.life import stopping
from runs.life.reconcile.placing import is_claimed
from runs.life.resizing import begin_change, change_asked_for, refuse_resize
from runs.models import Attempt, Event, HeldSlot, Job, Project, Report, Run, Sweep, User, bundle_of
from runs.models.runs import StaleStatus
from runs.placing.planning import frozen_estimate
from runs.privacy.retention import forget, require_room
from runs.recovery.fencing import unconfirmed_nodes
from runs.rights.access import Permission, require, require_still, require_use
from runs.rights.audit.recording import act_of, describe, record
from runs.tasks import reconcile_soon, schedule_soon
from runs.values.ids import new_id
from runs.values.refused import Refused
from runs.values.run_config import MAX_NOTES, MAX_STEP_NOTE, MOST_STEP_NOTES, NOTE, Origin, clean_tags, config_of
from runs.values.status import PLACED, Status, Wanted
from trainyard.contract.base import JsonObject, SpecDocument, to_builtins
from trainyard.contract.facts import EstimateDocument
from trainyard.formats.words import listed
from trainyard.spec import merge

QUEUED_SENTENCE = "Waiting to be placed."


def submit_run(
    *,
    actor: User,
    document: Any = None,
    job: Job | None = None,
    overrides: JsonObject | None = None,
    parent: Run | None = None,
) -> Run:
    """Queue a run of the document, or of the job, with the overrides (path -> value) laid over it.

    Raises SpecError for what is wrong with it, NotFound or Forbidden for its project. Nothing is written then.
    """
    if job is not None:
        document = job.spec
    if overrides:
        document = merge(document, overrides)
    prepared = prepare_run(actor=actor, document=document)
    with transaction.atomic():
        require_still(actor, prepared.found.project, Permission.RUNS_LAUNCH)  # code from Git takes up to minutes
        return queue_run(prepared, actor=actor, job=job, parent=parent, sentence=f"Submitted by {actor}.")


@dataclass(frozen=True)
class PreparedRun:
    """A run before it is stored: everything that takes time is done, and nothing is written yet."""

    found: Launchable
    resolved: SpecDocument
    pinned: PinnedCode | None
    estimate: EstimateDocument | None


def prepare_run(*, actor: User, document: Any) -> PreparedRun:
    """Raises what submit_run raises."""
    found = check_launch(actor=actor, document=document)
    require_room(found.project)
    pinned = pin_code(actor=actor, project=found.project, spec=found.spec)
    return PreparedRun(found, found.spec.resolved(), pinned, frozen_estimate(found.spec, found.cluster, found.nodes))


def queue_run(
    prepared: PreparedRun, *, actor: User, sentence: str, job: Job | None = None, parent: Run | None = None
) -> Run:
    """Write the run, or all of its array, in the transaction of whoever calls, and return the first."""
    resolved, array = prepared.resolved, prepared.found.spec.array
    write = partial(_write_run, actor=actor, sentence=sentence, job=job, parent=parent)
    if array.launches_many:
        group, name = new_id(), resolved["name"]
        own = [{**resolved["array"], "index": index} for index in range(array.size)]
        specs = [SpecDocument({**resolved, "name": f"{name}-{one['index']}", "array": one}) for one in own]
        run, *_ = [write(replace(prepared, resolved=one), array=group) for one in specs]
    else:
        run = write(prepared)
    schedule_soon(prepared.found.cluster.pk)
    return run


def _write_run(
    prepared: PreparedRun, *, actor: User, sentence: str, job: Job | None, parent: Run | None, array: str = ""
) -> Run:
    resolved = prepared.resolved
    run = Run.make(
        project=prepared.found.project,
        cluster=prepared.found.cluster,
        job=job,
        parent=parent,
        name=resolved["name"],
        spec=resolved,
        estimate=prepared.estimate,
        tags=[*([array_tag(array)] if array else []), *resolved.get("tags", [])],
        config=config_of(resolved),
        reason_code="queued",
        reason_sentence=QUEUED_SENTENCE,
        created_by=actor,
    )
    if prepared.pinned is not None:
        prepared.pinned.keep(run)
    _hold_code(run)
    keep_terms(run, array)
    run.record("submitted", sentence, actor=actor)
    return run


def _hold_code(run: Run) -> None:
    """Raise Refused where the run's code was removed since it was checked, as unused. Now the run uses it."""
    sha256 = bundle_of(run)
    if sha256 and not list(run.project.bundles.select_for_update().filter(sha256=sha256).values_list("pk")):
        raise Refused("no-code", f"The code {sha256[:12]} was removed, since nothing used it. Send it again.")


def stop_run(*, actor: User, run: Run) -> Run:
    """Ask for the end of the run: its ranks have the spec's ``limits.grace`` to save and end.

    Asking again, a second later or more, ends them at once. A run that has ended is Refused.
    """
    require(actor, run.project, Permission.RUNS_STOP)
    return _while_it_changes(_stop, actor, run, "stopped")


def _while_it_changes(act: Callable[[User, Run], Run], actor: User, run: Run, done: str) -> Run:
    """Act, again where the run was placed or ended between our reading and our writing."""
    for _ in range(3):
        try:
            return act(actor, run)
        except StaleStatus:
            run.refresh_from_db()
    raise Refused("busy", f"Run {run.name} is changing faster than it can be {done}. Try again.")


def _stop(actor: User, run: Run) -> Run:
    _refuse_local(run, "Trainyard did not start it, so it cannot stop it. End it where it runs, or give it up.")
    if run.is_final:
        raise Refused("already-ended", f"Run {run.name} has already ended: {run.status}.")
    now, attempt = timezone.now(), run.live_attempt()
    if run.status == Status.STOPPING and run.wanted == Wanted.PAUSE:
        stopping.instead_of_pause(run, attempt, actor=actor, now=now)
        reconcile_soon(run.pk)
        return run
    if run.status == Status.STOPPING:
        if attempt is not None and stopping.hurry(run, attempt, actor=actor, now=now):
            reconcile_soon(run.pk)
        return run
    with transaction.atomic():
        if run.status in PLACED and run.recover_at is None:
            words = f"{actor} asked to stop: {stopping.what_follows(run, attempt)}."
            stopping.begin(run, attempt, why=stopping.ASKED, code="stopping", sentence=words, now=now, actor=actor)
            reconcile_soon(run.pk)
        else:
            run.move_to(Status.CANCELLED, code="stopped", sentence=f"Stopped by {actor}.", actor=actor)
            schedule_soon(run.cluster_id)
    return run


def pause_run(*, actor: User, run: Run) -> Run:
    """Free the run's slots until it is resumed: its ranks save a checkpoint, where they are of a recipe, and end.

    Refused where nothing would be left to go on from, and where the run has ended or is being stopped.
    """
    require(actor, run.project, Permission.RUNS_STOP)
    return _while_it_changes(_pause, actor, run, "paused")


def _pause(actor: User, run: Run) -> Run:
    _refuse_local(run, "Trainyard did not start it, so it cannot pause it.")
    if run.is_final:
        raise Refused("already-ended", f"Run {run.name} has already ended: {run.status}.")
    if run.status == Status.PAUSED or (run.status == Status.STOPPING and run.wanted == Wanted.PAUSE):
        return run
    if run.status == Status.STOPPING:
        raise Refused("stopping", f"Run {run.name} is being stopped. Restart it once it has ended.")
    attempt = run.live_attempt()
    if attempt is None:
        sentence = f"Paused by {actor}. It keeps its place in line."
        run.move_to(Status.PAUSED, code="paused", sentence=sentence, actor=actor)
        schedule_soon(run.cluster_id)
        return run
    if attempt.go is not None and "recipe" in run.spec["task"] and not run.saves_at_stop:
        sentence = "It keeps no checkpoints (checkpoint.every_steps is 0), so a pause would lose every step."
        raise Refused("no-checkpoints", f"Run {run.name} cannot be paused. {sentence} Stop it instead.")
    words = f"{actor} asked to pause: {stopping.what_a_pause_does(run, attempt)}."
    stopping.begin(run, attempt, why=stopping.PAUSE, code="pausing", sentence=words, now=timezone.now(), actor=actor)
    reconcile_soon(run.pk)
    return run


def resume_run(*, actor: User, run: Run) -> Run:
    """Queue a paused run again, at its old place in line: a new attempt goes on from its newest checkpoint."""
    require(actor, run.project, Permission.RUNS_LAUNCH)
    if run.status == Status.STOPPING and run.wanted == Wanted.PAUSE:
        raise Refused("still-pausing", f"The ranks of run {run.name} are still saving. Resume it once it is paused.")
    if run.status != Status.PAUSED:
        raise Refused("not-paused", f"Run {run.name} is {run.status}. Only a paused run can be resumed.")
    if run.cluster is not None:
        require_use(run.project, run.cluster, actor)
    require_room(run.project)
    return _queue_again(actor, run, "resumed")


def resize_run(*, actor: User, run: Run, nodes: int | None) -> Run:
    """Have an elastic run train on ``nodes`` nodes, as soon as there are so many; None: on as many as its spec allows.

    It stays so until somebody asks for another number. Refused where its state does not allow it; ValidationError for a
    number that it cannot have.
    """
    require(actor, run.project, Permission.RUNS_LAUNCH)
    return _while_it_changes(partial(_resize, nodes=nodes), actor, run, "resized")


def _resize(actor: User, run: Run, *, nodes: int | None) -> Run:
    refuse_resize(run, nodes)
    now, attempt, cluster = timezone.now(), run.live_attempt(), run.cluster
    asked = "as many nodes as there are" if nodes is None else f"{nodes} node{'' if nodes == 1 else 's'}"
    with transaction.atomic():
        run.node_limit = nodes
        run.save(update_fields=["node_limit"])
        change = None
        if attempt is not None and cluster is not None and run.status == Status.RUNNING:
            attempt.run = run
            change = change_asked_for(attempt, now, lambda: is_claimed(cluster, now))
        if change is not None and attempt is not None:
            begin_change(attempt, change, now, actor=actor, before=f"{actor} asked for {asked}. ")
            reconcile_soon(run.pk)
        else:
            number = attempt.placements.count() if attempt is not None else 0
            until = f" It trains on {number} until that changes." if number else ""
            run.record("resize-asked", f"{actor} asked for {asked}.{until}", actor=actor)
            schedule_soon(run.cluster_id)
    return run


def restart_run(*, actor: User, run: Run) -> Run:
    """Queue a failed or cancelled run again: the same run, with a new attempt."""
    require(actor, run.project, Permission.RUNS_LAUNCH)
    _refuse_local(run, "Trainyard has not got its script, so it cannot start it again.")
    if run.status == Status.SUCCEEDED:
        raise Refused("succeeded", f"Run {run.name} succeeded. Clone it to train again.")
    if run.status == Status.PAUSED:
        raise Refused("still-live", f"Run {run.name} is PAUSED. Resume it instead.")
    if not run.is_final:
        raise Refused("still-live", f"Run {run.name} is {run.status}. Stop it first, then restart it.")
    if run.cluster is not None:
        require_use(run.project, run.cluster, actor)
    if words := why_too_long(run.project, run.spec):
        raise Refused("too-long", f"Run {run.name} cannot be restarted: limits.time {words}. Clone it with another.")
    return _queue_again(actor, run, "restarted")


def clone_run(*, actor: User, run: Run, overrides: JsonObject | None = None) -> Run:
    """Queue a new run with the spec of this one and the overrides. Raises what submit_run raises."""
    require(actor, run.project, Permission.RUNS_READ)
    _refuse_local(run, "Trainyard has not got its script, so there is nothing to launch.")
    changes = {"deadline": "", **(overrides or {})} if run.spec.get("deadline") else overrides  # it may be over
    return submit_run(actor=actor, document=unresolved(run.spec), overrides=changes, parent=run)


def continue_run(*, actor: User, run: Run, step: int | None = None, overrides: JsonObject | None = None) -> Run:
    """Queue a new run with the spec of this one and the overrides that goes on from its checkpoint of ``step``, or
    from its newest. Raises what submit_run raises, and Refused where there is no checkpoint."""
    origin = newest_checkpoint(actor=actor, run=run) if step is None else Origin(run.pk, step)
    return clone_run(actor=actor, run=run, overrides={**(overrides or {}), "checkpoint.restore": str(origin)})


def archive_run(*, actor: User, run: Run, is_archived: bool = True) -> Run:
    """Take an ended run out of the lists, or bring it back; nothing is lost."""
    require(actor, run.project, Permission.RUNS_ANNOTATE)
    if is_archived and not run.is_final:
        raise Refused("still-live", f"Run {run.name} is {run.status}. Only a run that has ended can be archived.")
    if is_archived != (run.archived_at is not None):
        code, words = ("archived", "Archived") if is_archived else ("unarchived", "Brought back")
        with transaction.atomic():
            run.archived_at = timezone.now() if is_archived else None
            run.save(update_fields=["archived_at"])
            run.record(code, f"{words} by {actor}.", actor=actor)
    return run


unarchive_run = partial(archive_run, is_archived=False)


def deleting(actor: User, thing: Run | Report) -> Permission:
    return Permission.RUNS_DELETE if thing.created_by_id == actor.pk else Permission.RUNS_DELETE_OTHERS


def delete_run(*, actor: User, run: Run) -> None:
    """Delete an ended run with its history, points, logs and files. One's own as a member, others' as a maintainer."""
    require(actor, run.project, deleting(actor, run))
    if not run.is_final:
        way = "Give it up first" if run.is_local else "Stop it first"
        raise Refused("still-live", f"Run {run.name} is {run.status}. {way}.")
    if slot := HeldSlot.objects.filter(placement__attempt__run=run).select_related("node").first():
        # To forget the attempt would free the slot for others while its ranks may still be at work.
        sentence = f"Node {slot.node.name} has not confirmed yet that nothing of run {run.name} is left on it."
        raise Refused("still-held", f"{sentence} Wait a moment; a node that is gone for good can be removed.")
    forget(run)


def move_run(*, actor: User, run: Run, project: Project) -> Run:
    """Put an ended run into another project: its people see it from then on, and those of the old one no more. Whoever
    moves it might delete it here and launch one there. Refused for what would come apart."""
    before = run.project
    require(actor, before, deleting(actor, run))
    if before == project:
        return run
    require(actor, project, Permission.RUNS_LAUNCH)
    if not run.is_final or HeldSlot.objects.filter(placement__attempt__run=run).exists():
        raise Refused("still-live", f"Run {run.name} is {run.status}. It moves once it has ended and left its nodes.")
    if sweep := Sweep.objects.filter(Q(trials__run=run) | Q(trials__further_runs__run=run)).first():
        raise Refused("in-a-sweep", f"Run {run.name} belongs to sweep {sweep.name}, and stays with it.")
    for one in (before, project):
        if one.encrypts_files or one.storage_keys.exists():
            raise Refused("encrypted", f"Project {one.name} has its own keys for files: runs neither leave nor enter.")
    if run.cluster is not None:
        require_use(project, run.cluster, actor)
    require_room(project)
    with transaction.atomic():
        if code := before.bundles.filter(sha256=bundle_of(run) or "").first():
            same = {"size_bytes": code.size_bytes, "files": code.files, "created_by": actor}
            project.bundles.get_or_create(sha256=code.sha256, defaults=same)
        run.project, run.job, run.spec = project, None, {**run.spec, "project": project.name}
        run.described_at = timezone.now()
        run.save(update_fields=["project", "job", "spec", "described_at"])
        run.record("moved", f"Moved from project {before.name} to {project.name} by {actor}.", actor=actor)
    describe(project=before.name)
    record(act_of(actor, "runs.move", object=f"run {run.pk}", project=project.name))
    return run


def tag_run(*, actor: User, run: Run, tags: list[str]) -> Run:
    """Replace the tags; empty ones, repeats and characters that nobody sees are dropped."""
    require(actor, run.project, Permission.RUNS_ANNOTATE)
    run.tags = clean_tags(tags)
    run.save(update_fields=["tags"])
    return run


def note_run(*, actor: User, run: Run, notes: str) -> Run:
    require(actor, run.project, Permission.RUNS_ANNOTATE)
    run.notes = notes[:MAX_NOTES]
    run.save(update_fields=["notes"])
    return run


def note_step(*, actor: User, run: Run, step: int, text: str) -> Event:
    """Write a note at a step, which the charts and the timeline of the run show."""
    require(actor, run.project, Permission.RUNS_ANNOTATE)
    words = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    if not words:
        raise Refused("empty-note", "A note has words.")
    if run.events.filter(code=NOTE).count() >= MOST_STEP_NOTES:
        raise Refused("too-many-notes", f"Run {run.name} has {MOST_STEP_NOTES} notes at steps, and more are not kept.")
    return run.record(NOTE, words[:MAX_STEP_NOTE], data={"step": step}, actor=actor)


def give_up_run(*, actor: User, run: Run) -> Run:
    """End a run whose nodes are out of contact. Its fence keeps a node that comes back from changing it again.

    A run that was logged elsewhere and whose end nobody sent is given up too, until its end is sent after all.
    """
    require(actor, run.project, Permission.RUNS_STOP)
    if run.is_local and not run.is_final:
        sentence = f"Given up by {actor} while its end was missing."
        run.move_to(Status.CANCELLED, code="given-up", sentence=sentence, actor=actor)
        return run
    out_of_contact = Attempt.objects.filter(run=run, ended_at=None).exclude(contact_lost_at=None).first()
    if run.is_final or out_of_contact is None:
        words = f"Run {run.name} is {run.status}. Only a run that is out of contact can be given up."
        raise Refused("in-contact", words)
    sentence = f"Given up by {actor} while its nodes were out of contact."
    cause = cause_of_stop("given-up", sentence, run.reason_evidence)
    with transaction.atomic():
        run.move_to(Status.CANCELLED, code="given-up", sentence=sentence, actor=actor, attempt=out_of_contact)
        Attempt.objects.filter(pk=out_of_contact.pk, ended_at=None).update(
            ended_at=timezone.now(), reason_code="given-up", reason_sentence=sentence, cause=to_builtins(cause)
        )
    return run


def _queue_again(actor: User, run: Run, code: str) -> Run:
    """Queue the run for another attempt. Refused while ranks of an earlier one may still train."""
    if names := unconfirmed_nodes(run):
        who = f"Node {names[0]} has" if len(names) == 1 else f"Nodes {listed(names)} have"
        sentence = f"{who} not confirmed yet that nothing of run {run.name} is left there."
        way = "Restart it once they are in contact again; a node that is gone for good can be removed."
        raise Refused("still-held", f"{sentence} {way}")
    with transaction.atomic():
        run.move_to(Status.QUEUED, code=code, sentence=f"{code.capitalize()} by {actor}.", actor=actor)
        schedule_soon(run.cluster_id)
    return run


def _refuse_local(run: Run, why: str) -> None:
    if run.is_local:
        raise Refused("logged-elsewhere", f"Run {run.name} was logged outside of Trainyard. {why}")

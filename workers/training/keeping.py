"""Keeping of states for the loop: the one to go on from before the first step, and those behind later steps."""

import shutil
import time
from collections.abc import Sequence
from functools import partial

from trainyard.formats.words import listed
from trainyard.spec import RecipeSpec
from trainyard.spec.sections.changes import SettingsChange
from trainyard.spec.sections.train import Train
from trainyard.spooling.plain_files import sync
from workers.replicas.folders import ReplicaPlan
from workers.training.build import Training, make_schedule
from workers.training.checkpoints import store
from workers.training.checkpoints.pieces import piece_of, share_writing
from workers.training.checkpoints.reading import Found, Refused, choose
from workers.training.checkpoints.saving import AttemptFacts, Saver, off_record, record_of
from workers.training.checkpoints.state import Parameters, load_state, pieces_to_save, small_state
from workers.training.checkpoints.store import Mark, Store
from workers.training.group import gather_all, why_not_shared
from workers.training.mesh import AXES, share_batch
from workers.training.metrics import Metrics
from workers.training.optimizing.optimizers import set_weight_decay
from workers.training.passes import PlainPasses
from workers.training.replicas.finding import Search, search
from workers.training.replicas.last import LastState, are_copies
from workers.training.replicas.taking import Replicas, open_replicas

END_TIMEOUT_S = 3600.0  # for the last checkpoint, on a disk that is slow or does not answer
REPLICAS_END_S = 5.0  # for a state on its way into memory: nobody goes on from it any more
MOST_NAMED = 3  # nodes in a sentence


class DiskCheckpoints:
    """Keeps checkpoints in ``store.folder`` and restores one of ``store.candidates``."""

    def __init__(self, spec: RecipeSpec, store: Store, metrics: Metrics, in_memory: ReplicaPlan | None = None) -> None:
        self._every = spec.checkpoint.every_steps
        self._given = spec.checkpoint
        self._plan = in_memory if self._every and spec.checkpoint.replicate_every_steps else None
        self._kind = spec.parallel.synchronization.kind
        self._store, self._metrics = store, metrics
        self._parameters: Parameters = {}
        self._written: set[str] = set()
        self._saver: Saver | None = None
        self._is_due = False
        self._parallel = spec.parallel
        self.replicas: Replicas | None = None
        self._last: LastState | None = None

    def restore(self, training: Training) -> int:
        """Give ``training`` the newest valid state; return the step it was taken behind, 0 where there is none.

        A collective. Raises ValueError, on every rank, for a checkpoint of another model, and where the spec names
        one and none can be restored.
        """
        started = time.perf_counter()
        # Once and for all: what stands in the modules later may be gathered copies of what is trained.
        self._parameters = training.parameters()
        self._open(training)
        if (in_memory := self._search(training)).found is not None:
            return self._go_on(training, in_memory.found, in_memory.nodes, started)
        found, refused = choose(self._store.candidates, training, self._parameters, self._kind)
        self._report_refused(training, refused)
        if found is None:
            if wanted := self._given.restore:
                raise ValueError(f"checkpoint.restore is {wanted}, which cannot be restored: {reasons(refused)}")
            if (refused or in_memory.refused) and training.mesh.rank == 0:
                why = "none of the checkpoints that were offered can be used"
                self._metrics.report(record_of("anew", self._store.run, Mark(self._store.fence, 0), why=why))
                print(f"starts anew at step 0: {why}", flush=True)
            training.feed.skip(self._store.skips_after(None))
            return 0
        return self._go_on(training, found, (), started)

    def _go_on(self, training: Training, found: Found, nodes: Sequence[str], started: float) -> int:
        """Take over what was found: on the disk, or in the memory of ``nodes``."""
        load_state(training, self._parameters, found.manifest, found.tensors, self._kind)
        change_for(training, found.manifest.step + 1)  # before steps are skipped: what follows counts in its batches
        training.feed.skip(self._store.skips_after(found.candidate))
        if training.mesh.rank == 0:
            mark, run = found.candidate.mark, found.candidate.run
            memory = named(nodes)
            record = record_of("restored", run, mark, found.manifest, memory=memory)
            record.took_s = time.perf_counter() - started
            self._metrics.report(record)
            source = f"the memory of {memory}" if memory else f"checkpoint {mark.name} of run {run}"
            print(f"goes on behind step {mark.step}, from {source}", flush=True)
        return found.manifest.step

    def _search(self, training: Training) -> Search:
        """Look for a state in memory that is not older than the newest checkpoint of this run. A collective."""
        candidates, run = self._store.candidates, self._store.run
        settings = training.settings
        has_found = settings.find_batch_size != "none" or settings.find_learning_rate != "none"
        if self._plan is None or (has_found and not candidates):  # what was found, the newest checkpoint says
            return Search()
        newest = max((one.mark for one in candidates if one.run == run), default=None)
        result = search(self._plan, self._store, training, self._parameters, self._kind, not_before=newest)
        for one in result.refused if training.mesh.rank == 0 else ():
            print(f"state {one.mark.name} in the memory of {named(one.nodes)} is not used: {one.why}", flush=True)
            self._metrics.report(record_of("invalid", run, one.mark, why=one.why, memory=named(one.nodes)))
        return result

    def after_step(self, training: Training, step: int, *, is_last: bool) -> None:
        """Keep the state every so many steps and at the end, or as soon after as the ranks hold the same weights."""
        pieces = partial(pieces_to_save, training, self._parameters, self._written, self._kind)
        if self._saver is not None:
            self._is_due = self._is_due or is_last or step % self._every == 0
            if self._is_due and training.synchronization.is_agreed:
                self._is_due = False
                self._saver.save(step, pieces, small_state(training, self._kind, step))
        if not is_last:
            self.keep_in_memory(training, step)
        if is_last and self._saver is not None:
            self._saver.wait(END_TIMEOUT_S)
        if is_last and self.replicas is not None:
            self.replicas.wait(REPLICAS_END_S)

    def keep_in_memory(self, training: Training, step: int) -> None:
        """Copy the state behind ``step`` into memory where it is due."""
        if self.replicas is not None:
            pieces = partial(pieces_to_save, training, self._parameters, self._written, self._kind)
            state = partial(small_state, training, self._kind, step)
            self.replicas.after_step(step, pieces, state, is_agreed=training.synchronization.is_agreed)

    def stepped(self, step: int) -> None:
        """Take note that ``step`` is over, with all that was logged of it."""
        if self._last is not None:
            self._last.stepped(step)

    def give_up(self, training: Training, step: int) -> None:
        """Keep the state behind ``step``, where no other can be taken and ranks hold copies. How near a training is to
        its early end, rank 0 alone knows."""
        if self._last is None or (training.early_stopping.patience and training.mesh.rank != 0):
            return
        pieces = pieces_to_save(training, self._parameters, set(self._parameters), self._kind)
        try:
            self._last.keep(step, pieces, small_state(training, self._kind, step))
        except Exception as error:  # an older state will do, and what ended the step is to be raised
            print(f"the state of step {step} is not kept in memory: {type(error).__name__}: {error}", flush=True)

    def is_kept(self, step: int) -> bool | None:
        """Return whether the checkpoint behind ``step`` is whole on the disk; None where this rank keeps none."""
        if self._saver is None:
            return None
        facts = self._saver.facts
        return (facts.folder / Mark(facts.fence, step).name).is_dir()

    def _open(self, training: Training) -> None:
        """See where to keep checkpoints, tidy up there, and share the work out. A collective."""
        folder = self._store.folder
        if folder is None or not self._every:
            return
        rank = training.mesh.rank
        writers = range(1) if self._kind == "parameter-server" else range(training.mesh.world_size)
        trouble = why_not_shared(folder, self._store.fence, writers)
        regions = {name: piece_of(name, parameter).region for name, parameter in self._parameters.items()}
        self._written = share_writing(gather_all(regions if rank in writers else {}))[rank]
        facts = AttemptFacts(
            run=self._store.run,
            fence=self._store.fence,
            folder=folder,
            keep=self._given.keep,
            rank=rank,
            writers=tuple(writers),
            model=training.task.describe(),
            world_size=training.mesh.world_size,
            degrees=dict(zip(AXES, training.mesh.degrees, strict=True)),
            device=training.device,
            keyring=self._store.keyring,
        )
        if self._plan is not None:
            self.replicas = open_replicas(self._plan, self._given, facts, self._metrics, is_writer=rank in writers)
            if self.replicas is not None and are_copies(training, self._parallel):
                self._last = LastState(self._plan, facts, self._metrics)
        if rank not in writers:
            return
        if trouble is not None:
            if rank == 0:
                print(f"no checkpoints are kept, training goes on without: {trouble}", flush=True)
                self._metrics.report(off_record(self._store.run, self._store.fence, trouble))
            return
        self._saver = Saver(facts, self._metrics)
        if rank == 0:
            self._tidy(facts)

    def _tidy(self, facts: AttemptFacts) -> None:
        sync(facts.folder.parent)  # the folder may be new, and what is in it is on the disk only when its name is
        store.sweep(facts.folder, Mark(facts.fence, 0))
        for mark in store.find(facts.folder, store.DELETED):  # an earlier attempt could neither remove nor report it
            self._metrics.report(record_of("deleted", facts.run, mark))
            shutil.rmtree(facts.folder / mark.deleted_name, ignore_errors=True)

    def _report_refused(self, training: Training, refused: Sequence[Refused]) -> None:
        for one in refused:
            candidate = one.candidate
            if self._saver is not None and candidate.folder.parent == self._store.folder:
                self._saver.damaged.add(candidate.mark)
            if training.mesh.rank == 0:
                print(f"checkpoint {candidate.mark.name} of run {candidate.run} is damaged: {one.why}", flush=True)
                record = record_of("invalid", candidate.run, candidate.mark, why=one.why)
                # A missing checkpoint may be on the disk of the node that took it: it is not damaged for all.
                record.missing = not candidate.folder.is_dir()
                self._metrics.report(record)


def named(nodes: Sequence[str]) -> str:
    return listed([node or "this machine" for node in nodes], at_most=MOST_NAMED) if nodes else ""


def reasons(refused: Sequence[Refused]) -> str:
    """Return in words why none of the candidates could be restored."""
    if not refused:
        return "the node was offered no checkpoint"
    return "; ".join(f"{one.candidate.mark.name} of run {one.candidate.run}: {one.why}" for one in refused)


# Changes between two steps of a training, by ``changes`` of the spec: learning rate, weight decay, batch, clip.
#
# The state stays: weights, what the optimizer keeps, random states, and the place in the data. So a training whose
# settings change behind a step has the losses of one that stopped there and went on from its checkpoint with the new
# settings, bit for bit.


def settings_at(given: Train, changes: Sequence[SettingsChange], step: int) -> Train:
    """Return the settings with which ``step`` is taken. The changes are in the order of their steps."""
    values = {name: value for one in changes if one.behind < step for name, value in one.values.items()}
    return given.model_copy(update=values) if values else given


def change_for(training: Training, step: int) -> None:
    """Give the training the settings of ``step``, which is taken next."""
    settings, before = settings_at(training.given, training.spec.changes, step), training.settings
    training.settings = settings
    if settings.learning_rate != before.learning_rate:
        training.schedule = make_schedule(settings)
    if settings.weight_decay != before.weight_decay:
        set_weight_decay(training.optimizer, settings.weight_decay)
    if settings.batch_size != before.batch_size:
        take_batch_size(training, settings, step)


def take_batch_size(training: Training, settings: Train, step: int) -> None:
    """Let ``step`` begin where the step before has ended, with another number of samples."""
    assert isinstance(training.passes, PlainPasses)  # no other is in the table of what goes with this
    feed = training.feed
    feed.restart(step, feed.samples_before(step), feed.skipped)
    training.share = share_batch(settings.batch_size, settings.accumulate, training.mesh)
    training.passes.resize(settings.batch_size, training.share)

"""Changes between two steps of a training, by ``changes`` of the spec: learning rate, weight decay, batch, clip.

The state stays: weights, what the optimizer keeps, random states, and the place in the data. So a training whose
settings change behind a step has the losses of one that stopped there and went on from its checkpoint with the new
settings, bit for bit.
"""

from collections.abc import Sequence

from trainyard.spec.sections.changes import SettingsChange
from trainyard.spec.sections.train import Train
from workers.training.build import Training, make_schedule
from workers.training.mesh import share_batch
from workers.training.optimizing.optimizers import set_weight_decay
from workers.training.passes import PlainPasses


def settings_at(given: Train, changes: Sequence[SettingsChange], step: int) -> Train:
    """Return the settings with which ``step`` is taken. The changes are in the order of their steps."""
    values = {name: value for one in changes if one.behind < step for name, value in one.values.items()}
    return given.model_copy(update=values) if values else given


def change_for(training: Training, step: int) -> None:
    """Give the training the settings of ``step``, which is taken next."""
    settings, before = settings_at(training.given, training.changes, step), training.settings
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

"""Changes within each block of a model, on every rank alike, and shares of the batch by speed."""

from trainyard.spec.strategies.strategy import Limit, Place, Strategy


class ActivationCheckpointing(Strategy):
    """Its memory and its time are those of the planner's sections, which know what each operator keeps."""

    name = "activation_checkpointing"
    place = Place.CUT
    reason = "around the cut blocks, and within what is compiled and sharded: hooks of others run once"
    path = "train.activation_checkpointing"
    values = ("selective", "full")


class Compilation(Strategy):
    name = "compilation"
    place = Place.CUT
    reason = "it compiles blocks as they are computed, but not the gathering of shards between them"
    path = "train.compile"
    values = ("true",)


class Balance(Strategy):
    name = "balance"
    place = Place.AGREE
    reason = "it watches the finished training"
    path = "parallel.balance"
    values = ("speed",)
    limit = Limit(
        frozenset({"data"}),
        "a copy's share of the batch is its own to choose",
        least_data=2,
        only_every_step=True,
        only_uncompressed=True,
    )

"""State of a training that is kept, its names, and the way in which it is given back.

Tensors are called ``model/<parameter>`` and ``optimizer/<parameter>/<slot>``, whatever the mesh they are spread over;
``synchronization/<rank>/<name>`` is a rank's own. Where ranks step by themselves (local-sgd, diloco) each has its own
optimizer too: that of rank 0 has the plain names, the others ``ranks/<rank>/optimizer/<parameter>/<slot>``.
"""

from collections.abc import Mapping, Set

import torch
from torch import nn

from workers.training.build import Training
from workers.training.checkpoints.manifest import Manifest, TrainingState
from workers.training.checkpoints.pieces import Region, TensorPiece, piece_of
from workers.training.checkpoints.random_state import load_random_state
from workers.training.data.batches.order import Skipped
from workers.training.optimizing.optimizers import Group

Parameters = Mapping[str, nn.Parameter]

OWN_OPTIMIZERS = frozenset({"local-sgd", "diloco"})
ALIKE_ON_ALL_RANKS = frozenset({"diloco"})  # what it keeps is what the last round has agreed on


def pieces_to_save(training: Training, parameters: Parameters, written: Set[str], kind: str) -> list[TensorPiece]:
    """Return what this rank writes: the pieces of the parameters ``written``, and what is its own."""
    rank = training.mesh.rank
    has_own_optimizer = kind in OWN_OPTIMIZERS
    pieces = []
    for name, parameter in parameters.items():
        model = piece_of(f"model/{name}", parameter)
        if name in written:
            pieces.append(model)
        if name not in written and not has_own_optimizer:
            continue
        for slot, value in slots_of(training.optimizer, parameter).items():
            piece = piece_of(f"{optimizer_prefix(kind, rank)}optimizer/{name}/{slot}", value)
            # A count of steps is the same on all ranks that share the parameter: one of them writes it.
            if has_own_optimizer or piece.region == model.region or model.region.is_first:
                pieces.append(piece)
    own = training.synchronization.state()
    return pieces + [piece_of(f"synchronization/{rank}/{name}", value) for name, value in own.items()]


def small_state(training: Training, kind: str, step: int) -> TrainingState:
    """Return what is no tensor, as JSON, behind ``step``."""
    return {
        "optimizer": training.settings.optimizer,
        "synchronization": kind,
        # What may have been found, and not been written in the spec: an attempt that goes on keeps it.
        "batch_size": training.settings.batch_size,
        # All that a place in the data is: whoever goes on takes the sample behind these, whatever its batch.
        "samples": training.feed.samples_before(step + 1),
        "skipped": [list(one) for one in training.feed.skipped],
        "learning_rate": training.settings.learning_rate,
        "early_stopping": training.early_stopping.state(),
        "precision": training.precision.state(),
        "balance": training.balance.state() if training.balance else [],
    }


def regions_to_read(training: Training, parameters: Parameters, manifest: Manifest, kind: str) -> dict[str, Region]:
    """Return which regions of which tensors of a checkpoint this rank needs."""
    regions = {}
    slots = stored_slots(manifest, own_prefix(training, manifest, kind))
    for name, parameter in parameters.items():
        region = piece_of(name, parameter).region
        regions[f"model/{name}"] = region
        if manifest.state["optimizer"] == training.settings.optimizer:
            for stored in slots.get(name, {}).values():
                shape = manifest.tensors[stored].shape
                regions[stored] = region if shape == region.whole else whole(shape)
    for stored in stored_synchronization(training, manifest, kind).values():
        regions[stored] = whole(manifest.tensors[stored].shape)
    return regions


@torch.no_grad()
def load_state(
    training: Training, parameters: Parameters, manifest: Manifest, tensors: Mapping[str, torch.Tensor], kind: str
) -> None:
    """Give ``training`` what was read. What the checkpoint does not have, such as another optimizer's state, starts
    anew; random states are those of the checkpoint only where rank and mesh are."""
    slots = stored_slots(manifest, own_prefix(training, manifest, kind))
    training.optimizer.state.clear()
    groups = {parameter: group for group in training.optimizer.param_groups for parameter in group["params"]}
    for name, parameter in parameters.items():
        piece_of(name, parameter).local.copy_(tensors[f"model/{name}"])
        found = {slot: tensors[stored] for slot, stored in slots.get(name, {}).items() if stored in tensors}
        if found:
            group = groups[parameter]
            training.optimizer.state[parameter] = {
                slot: slot_value(value, parameter, group) for slot, value in found.items()
            }
    own = {
        name: tensors[stored].to(training.device)
        for name, stored in stored_synchronization(training, manifest, kind).items()
    }
    if own:
        training.synchronization.load(own)
    # A checkpoint that is older than the count of samples was taken in steps of one size.
    samples = manifest.state.get("samples", manifest.step * manifest.state["batch_size"])
    skipped = tuple(Skipped(int(start), int(stop)) for start, stop in manifest.state.get("skipped", []))
    training.feed.restart(manifest.step + 1, samples, skipped)
    training.early_stopping.load(manifest.state["early_stopping"])
    training.precision.load(manifest.state["precision"])
    if training.balance is not None and training.balance.load(manifest.state.get("balance", [])):
        training.take_share(training.balance.share)
    random_state = manifest.state["random"].get(str(training.mesh.rank))
    if random_state is not None and is_same_mesh(training, manifest):
        load_random_state(random_state, training.device)


def slots_of(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
    """Return the optimizer's tensors of a parameter. Every optimizer here keeps tensors only."""
    found: Mapping[str, object] = optimizer.state.get(parameter, {})
    return {slot: value for slot, value in found.items() if isinstance(value, torch.Tensor)}


def slot_value(value: torch.Tensor, parameter: nn.Parameter, group: Group) -> torch.Tensor:
    """Return what the optimizer is to hold: spread as the parameter is, or a count where the optimizer wants it."""
    if value.ndim == 0:
        return value.to(parameter.device) if group.get("fused") or group.get("capturable") else value
    held = torch.empty_like(parameter, dtype=value.dtype)
    piece_of("", held).local.copy_(value)
    return held


def optimizer_prefix(kind: str, rank: int) -> str:
    return f"ranks/{rank}/" if kind in OWN_OPTIMIZERS and rank > 0 else ""


def own_prefix(training: Training, manifest: Manifest, kind: str) -> str:
    """Return under which prefix this rank's optimizer is found: rank 0's where ranks are others than they were."""
    is_own = manifest.state["synchronization"] == kind and is_same_mesh(training, manifest)
    return optimizer_prefix(kind, training.mesh.rank) if is_own else ""


def stored_slots(manifest: Manifest, prefix: str) -> dict[str, dict[str, str]]:
    """Return by parameter and slot what the optimizer's tensors under ``prefix`` are called."""
    start = f"{prefix}optimizer/"
    found: dict[str, dict[str, str]] = {}
    for stored in manifest.tensors:
        if stored.startswith(start):
            name, _, slot = stored.removeprefix(start).rpartition("/")
            found.setdefault(name, {})[slot] = stored
    return found


def stored_synchronization(training: Training, manifest: Manifest, kind: str) -> dict[str, str]:
    """Return by name what the synchronisation's tensors for this rank are called: its own where the mesh is the same,
    rank 0's where all ranks have the same, else none."""
    if manifest.state["synchronization"] != kind:
        return {}
    if is_same_mesh(training, manifest):
        rank = training.mesh.rank
    elif kind in ALIKE_ON_ALL_RANKS:
        rank = 0
    else:
        return {}
    start = f"synchronization/{rank}/"
    return {stored.removeprefix(start): stored for stored in manifest.tensors if stored.startswith(start)}


def is_same_mesh(training: Training, manifest: Manifest) -> bool:
    """Return whether the axes in use are those of the checkpoint: an older one does not name all that there are."""
    return {axis: degree for axis, degree in manifest.degrees.items() if degree > 1} == training.mesh.used


def whole(shape: tuple[int, ...]) -> Region:
    return Region(shape, (0,) * len(shape), shape)

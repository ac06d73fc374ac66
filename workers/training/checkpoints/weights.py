"""The final weights in the output folder: whole or not there."""

import json
import shutil
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from trainyard.spooling.plain_files import write_whole
from workers.training.build import Training
from workers.training.checkpoints.pieces import Region, Shape, TensorPiece, piece_of
from workers.training.recipes import ModelDocument

WEIGHTS = "model.safetensors"
CONFIG = "model.json"

Held = dict[str, tuple[Region, torch.dtype]]  # what a rank has of each tensor, by name


def save_weights(training: Training, config: ModelDocument, folder: Path) -> None:
    """Write ``model.safetensors``, ``model.json`` and the task's assets into ``folder`` on rank 0. Every rank calls it.

    The weights go last: those that are there can always be read.
    """
    tensors = gather_weights(training)
    if training.mesh.rank != 0:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CONFIG, lambda temporary: temporary.write_text(json.dumps(config, indent=2) + "\n"))
    for name, path in training.task.assets.items():
        write_whole(folder / name, partial(shutil.copyfile, path))
    write_whole(folder / WEIGHTS, lambda temporary: save_file(tensors, temporary, metadata={"format": "pt"}))


def gather_weights(training: Training) -> dict[str, torch.Tensor]:
    """Return on rank 0 the parameters of the whole model, on the CPU and by name; elsewhere an empty dictionary.

    Where weights are spread every rank takes part. Only rank 0 ever holds more than its own, and one piece on its way.
    """
    pieces = {name: piece_of(name, parameter) for name, parameter in training.parameters().items()}
    is_first = training.mesh.rank == 0
    if training.device_mesh is None:
        # Copies of the whole model are all there is: rank 0 needs nobody, and some may be gone (parameter server).
        return {name: piece.local.to("cpu").contiguous() for name, piece in pieces.items()} if is_first else {}
    own: Held = {name: (piece.region, piece.local.dtype) for name, piece in pieces.items()}
    held: list[Held] = [{} for _ in range(training.mesh.world_size)]
    dist.all_gather_object(held, own)
    if is_first:
        return _receive(held, pieces, training.device)
    for (name, _), sender in sorted(choose_senders(held).items()):
        if sender == training.mesh.rank:
            dist.send(pieces[name].local.contiguous(), dst=0)
    return {}


def choose_senders(held: list[Held]) -> dict[tuple[str, Shape], int]:
    """Return for each piece, a name and an offset, the first of the ranks that hold it."""
    senders: dict[tuple[str, Shape], int] = {}
    for rank, regions in enumerate(held):
        for name, (region, _) in regions.items():
            if region.num_elements:
                senders.setdefault((name, region.offset), rank)
    return senders


def _receive(held: list[Held], own: dict[str, TensorPiece], device: torch.device) -> dict[str, torch.Tensor]:
    """Lay all pieces into whole tensors, in the order in which their senders send."""
    whole: dict[str, torch.Tensor] = {}
    for (name, offset), sender in sorted(choose_senders(held).items()):
        region, dtype = held[sender][name]
        if sender == 0:
            piece = own[name].local
        else:
            piece = torch.empty(region.shape, dtype=dtype, device=device)
            dist.recv(piece, src=sender)
        if name not in whole:
            whole[name] = torch.empty(region.whole, dtype=dtype)
        whole[name][tuple(slice(start, start + size) for start, size in zip(offset, region.shape, strict=True))] = piece
    return whole

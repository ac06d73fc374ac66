"""Choice of the checkpoint to go on from: the newest that is valid on every rank."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from workers.training.build import Training
from workers.training.checkpoints.manifest import MANIFEST, Damaged, Manifest, read_manifest
from workers.training.checkpoints.pieces import Shape
from workers.training.checkpoints.reading import CheckpointReader, check_files
from workers.training.checkpoints.state import Parameters, regions_to_read
from workers.training.checkpoints.store import Candidate
from workers.training.group import gather_all

NUM_NAMES = 3  # that a refusal names


@dataclass(frozen=True, slots=True)
class Found:
    """A valid checkpoint, and what this rank needs of it, in host memory."""

    candidate: Candidate
    manifest: Manifest
    tensors: dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Refused:
    """A damaged one, and what is wrong with it."""

    candidate: Candidate
    why: str


def choose(
    candidates: Iterable[Candidate], training: Training, parameters: Parameters, kind: str
) -> tuple[Found | None, list[Refused]]:
    """Return the first that is whole and readable on every rank, and those before it. A collective.

    Raises ValueError, on every rank, for one that is whole and of another model.
    """
    refused: list[Refused] = []
    for candidate in candidates:
        manifest, why = _check(candidate, training.mesh.rank, training.mesh.world_size)
        if first := _first(why):
            refused.append(Refused(candidate, first))
            continue
        assert manifest is not None
        refuse_other_model(candidate, manifest, parameters)
        tensors, why = _read(candidate, manifest, training, parameters, kind)
        if first := _first(why):
            refused.append(Refused(candidate, first))
            continue
        return Found(candidate, manifest, tensors), refused
    return None, refused


def _first(why: str | None) -> str | None:
    return next((reason for reason in gather_all(why) if reason is not None), None)


def _check(candidate: Candidate, rank: int, world_size: int) -> tuple[Manifest | None, str | None]:
    try:
        manifest = read_manifest(candidate.folder, candidate.keyring, candidate.context(MANIFEST))
        if (manifest.step, manifest.fence) != (candidate.mark.step, candidate.mark.fence):
            raise Damaged(f"its manifest is of step {manifest.step}, fence {manifest.fence}")
        check_files(candidate.folder, manifest, rank, world_size)
    except Damaged as error:
        return None, str(error)
    return manifest, None


def _read(
    candidate: Candidate, manifest: Manifest, training: Training, parameters: Parameters, kind: str
) -> tuple[dict[str, torch.Tensor], str | None]:
    try:
        with CheckpointReader(candidate.folder, manifest, keyring=candidate.keyring) as reader:
            regions = regions_to_read(training, parameters, manifest, kind)
            return {name: reader.read(name, region) for name, region in regions.items()}, None
    except Damaged as error:
        return {}, str(error)


def refuse_other_model(candidate: Candidate, manifest: Manifest, parameters: Parameters) -> None:
    """Raise ValueError, on every rank alike, unless the checkpoint has this model's parameters in their shapes."""
    own: Mapping[str, Shape] = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    here = {name: shape for shapes in gather_all(own) for name, shape in shapes.items()}
    there = {
        name.removeprefix("model/"): tensor.shape
        for name, tensor in manifest.tensors.items()
        if name.startswith("model/")
    }
    differences = [
        f"{name} is {there.get(name, 'not')} there and {here.get(name, 'not')} here"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]
    if differences:
        more = f" and {len(differences) - NUM_NAMES} more" if len(differences) > NUM_NAMES else ""
        raise ValueError(
            f"checkpoint.restore: {candidate.mark.name} of run {candidate.run} is of another model: "
            f"{'; '.join(differences[:NUM_NAMES])}{more}"
        )

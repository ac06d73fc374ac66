"""A training, put together in a rank of a benchmark as a node's rank does, without its loop."""

from __future__ import annotations

from trainyard.spec import RecipeSpec
from workers.training.build import Training, build
from workers.training.group import RankPlace, choose_device
from workers.training.mesh import make_mesh
from workers.training.recipes import load_task


def prepared(spec: RecipeSpec, place: RankPlace) -> Training:
    """Return the training of ``spec`` on this rank, which is in the default process group."""
    mesh = make_mesh(spec.parallel, place.world_size, place.rank)
    device = choose_device(spec.resources.accelerator, place)
    task = load_task(spec.task, seed=spec.train.seed, device=device)
    return build(spec, task, spec.train, mesh, device)

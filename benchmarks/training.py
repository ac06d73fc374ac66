"""A training, put together in a rank of a benchmark as a node's rank does, without its loop."""

from __future__ import annotations

from typing import Any

from workers.training.build import Training, build
from workers.training.mesh import make_mesh
from workers.training.recipes import load_task
from workers.training.settings import read_train
from workers.training.startup.place import Place, choose_device


def prepared(spec: dict[str, Any], place: Place) -> Training:
    """Return the training of ``spec`` on this rank, which is in the default process group."""
    settings = read_train(spec)
    mesh = make_mesh(spec["parallel"], place.world_size, place.rank)
    device = choose_device(spec["resources"]["accelerator"], place)
    task = load_task(spec["task"], seed=settings.seed, device=device)
    return build(spec, task, settings, mesh, device)

"""Where each rank stands: arithmetic without torch, the same for pages and for ranks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainyard.spec.sections.parallel import Parallel, Pipeline
from trainyard.spec.strategies.mesh import AXES, Mesh, make_mesh


def parallel(data: int | str = "auto", shard: int = 1, tensor: int = 1, stages: int = 1, **more: int) -> Parallel:
    pipeline = Pipeline.model_construct(stages=stages)
    return Parallel.model_construct(data=data, shard=shard, tensor=tensor, pipeline=pipeline, **more)


def test_tensor_runs_fastest_and_stages_slowest() -> None:
    mesh = make_mesh(parallel(tensor=2, stages=2), 8)
    assert mesh.used == {"pipeline": 2, "data": 2, "tensor": 2}
    places = [mesh.coordinates_of(rank) for rank in range(8)]
    assert [(one["pipeline"], one["data"], one["tensor"]) for one in places] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (0, 1, 1),
        (1, 0, 0),
        (1, 0, 1),
        (1, 1, 0),
        (1, 1, 1),
    ]


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_every_rank_has_a_place_of_its_own(data: int, shard: int, tensor: int, stages: int, context: int) -> None:
    world = data * shard * tensor * stages * context
    mesh = make_mesh(parallel("auto", shard, tensor, stages, context=context), world)
    assert mesh == make_mesh(parallel(data, shard, tensor, stages, context=context), world)
    places = [tuple(mesh.coordinates_of(rank).values()) for rank in range(world)]
    assert len(set(places)) == world
    for rank in range(world):
        own = Mesh((stages, data, context, shard, tensor), rank)
        assert tuple(own.coordinates) == AXES and tuple(own.coordinates.values()) == places[rank]
        assert all(0 <= at < degree for at, degree in zip(places[rank], mesh.degrees, strict=True))
        assert own.batch_part == own.coordinates["data"] * shard + own.coordinates["shard"]


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_that_is_not_there_has_no_place(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} is not one of the 4 ranks 0 to 3"):
        make_mesh(parallel(), 4).coordinates_of(rank)


@pytest.mark.parametrize(
    ("degrees", "world", "message"),
    [
        (parallel(shard=3), 4, "shard 3 x tensor 1 x pipeline.stages 1 = 3 does not divide the 4 ranks"),
        (parallel(2, tensor=2), 8, "data 2 x shard 1 x tensor 2 x pipeline.stages 1 = 4, but there are 8 ranks"),
        (parallel(shard=0), 4, "degrees start at 1, got shard 0"),
    ],
)
def test_degrees_that_do_not_multiply_are_refused(degrees: Parallel, world: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_mesh(degrees, world)

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.workers.training.ranks import facts, tiny_spec, train_on
from workers.training.data.problems import DataProblem


def task_of(location: str) -> dict[str, object]:
    model = {"layers": 1, "width": 16, "heads": 2, "context": 16}
    return {"recipe": "language-model", "model": model, "data": {"source": "text", "location": location}}


def take_the_file_from_rank_1(path: str) -> None:
    """In a rank: let rank 1 be on a node that has not the file."""
    from workers.training import main
    from workers.training.recipes import load_task

    make_mesh, ranks = main.make_mesh, []

    def made(parallel, world_size, rank):  # type: ignore[no-untyped-def]
        ranks.append(rank)
        return make_mesh(parallel, world_size, rank)

    def load(task, **rest):  # type: ignore[no-untyped-def]
        if ranks[0] == 1:
            task = task.model_copy(update={"data": task.data.model_copy(update={"location": f"{path}.gone"})})
        return load_task(task, **rest)

    main.make_mesh, main.load_task = made, load


def test_what_one_rank_cannot_read_ends_all_of_them_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "yard.txt").write_text("a train\n" * 5000)
    spec = tiny_spec(world=2, steps=2, task=task_of(str(tmp_path / "yard.txt")))
    with pytest.raises(DataProblem, match=r"task\.data\.location is .*yard\.txt\.gone, which is not on this machine"):
        train_on(2, spec, setup=partial(take_the_file_from_rank_1, str(tmp_path / "yard.txt")))


def test_ranks_that_all_have_theirs_train(tmp_path: Path) -> None:
    (tmp_path / "yard.txt").write_text("a train\n" * 5000)
    pair = train_on(2, tiny_spec(world=2, steps=1, warmup_steps=0, task=task_of(str(tmp_path / "yard.txt"))))
    assert facts(pair[0], "data")["num_rows"] > 2000

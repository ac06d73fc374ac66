from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainyard.spec.sections import tasks as spec
from trainyard.spec.sections.data import TextData
from workers.training.data.problems import DataProblem
from workers.training.optimizing.optimizers import make_optimizer
from workers.training.recipes import load_task
from workers.training.recipes.gpt import GPT, Shape, rotary_table, rotate
from workers.training.recipes.language_model import LanguageModelTask, refuse_too_little

CPU = torch.device("cpu")
TASK = spec.LanguageModelTask(
    recipe="language-model", model=spec.GPTModel(layers=1, width=8, heads=2, context=12), data=TextData()
)


def task_of(path: Path, **data: Any) -> LanguageModelTask:
    """Return a task over a text of 4,000 lines, in bytes unless ``data`` says otherwise."""
    path.write_text("".join(f"train {number % 17} is in the yard\n" for number in range(4000)))
    task = load_task(with_text(path, **data), seed=1, device=CPU)
    assert isinstance(task, LanguageModelTask)
    return task


def with_text(path: Path, **data: Any) -> spec.LanguageModelTask:
    return TASK.model_copy(update={"data": TextData(source="text", location=str(path), **data)})


def test_the_signature_of_a_url_goes_neither_with_the_weights_nor_into_words(tmp_path: Path) -> None:
    task = task_of(tmp_path / "one.txt")
    data = task.data.model_copy(update={"location": "https://me:secret@host/one.txt?signature=secret"})
    signed = LanguageModelTask(task.shape, task.corpus, data, 1, CPU)
    assert signed.describe()["data"]["location"] == "https://host/one.txt?…"
    with pytest.raises(DataProblem, match=r"a part of https://host/one\.txt\?… has only"):
        refuse_too_little(task.corpus, data, 10**9)


def test_rows_of_a_batch_do_not_depend_on_who_asks_for_them() -> None:
    task = load_task(TASK, seed=1, device=CPU)
    inputs, targets = task.train_batch(slice(40, 48))
    later_inputs, later_targets = task.train_batch(slice(44, 48))
    assert torch.equal(inputs[4:], later_inputs)
    assert torch.equal(targets[4:], later_targets)


def test_targets_are_the_inputs_one_token_later() -> None:
    inputs, targets = load_task(TASK, seed=1, device=CPU).train_batch(slice(0, 4))
    assert inputs.shape == targets.shape == (4, 12)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_an_epoch_is_the_whole_text_once(tmp_path: Path) -> None:
    task = task_of(tmp_path / "yard.txt")
    inputs, _ = task.train_batch(slice(0, task.num_train_rows))
    found = sorted(bytes(row.tolist()) for row in inputs)
    text = np.asarray(task.corpus.train).tobytes()
    assert task.num_train_rows == (len(text) - 1) // 12
    assert found == sorted(text[at : at + 12] for at in range(0, 12 * task.num_train_rows, 12))


@pytest.mark.parametrize("tokens", ["bytes", "bpe"])
def test_nats_per_byte_are_those_of_all_tokens_over_the_bytes_that_they_are(tokens: str, tmp_path: Path) -> None:
    task = task_of(tmp_path / "yard.txt", tokens=tokens, vocabulary=300)
    torch.manual_seed(0)
    model, total, nats, num_bytes = task.make_model(), torch.zeros(1, dtype=torch.float64), 0.0, 0
    torch.nn.init.normal_(model.head.weight, std=0.2)
    with torch.no_grad():
        for start in range(0, task.num_validation_rows, 100):
            rows = slice(start, min(start + 100, task.num_validation_rows))
            inputs, targets = task.validation_batch(rows)
            outputs = model(inputs)
            total += task.measure(outputs, targets)
            nats += torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum").item()
            num_bytes += int(task.corpus.lengths[targets.numpy()].sum())
    assert total.item() / task.num_validation_rows == pytest.approx(nats / num_bytes, rel=1e-5)
    assert (num_bytes > 3 * 12 * task.num_validation_rows) is (tokens == "bpe")


def test_the_vocabulary_is_that_of_the_tokens(tmp_path: Path) -> None:
    task = task_of(tmp_path / "yard.txt", tokens="bpe", vocabulary=300)
    assert task.shape.vocabulary == 300
    assert task.describe()["model"]["vocabulary"] == 300
    assert task.describe()["data"]["vocabulary"] == 300
    assert task.data_facts["tokens"] == len(task.corpus.train)
    assert [*task.assets] == ["tokenizer.json"] and task.assets["tokenizer.json"].is_file()


def test_a_context_longer_than_the_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short\n" * 30)
    with pytest.raises(DataProblem, match=r"task\.model\.context is 12, but a part of .*short\.txt has only 6 tokens"):
        load_task(with_text(tmp_path / "short.txt"), seed=1, device=CPU)


def test_no_position_sees_a_later_one() -> None:
    torch.manual_seed(0)
    model = GPT(Shape(layers=2, width=8, heads=2, context=12, vocabulary=256))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(256, (1, 12))
    changed = tokens.clone()
    changed[0, 6:] = 0
    same = torch.isclose(model(tokens), model(changed), atol=1e-5).all(-1)[0]
    assert same.tolist() == [True] * 6 + [False] * 6


def test_rotation_makes_products_depend_on_distance_alone() -> None:
    torch.manual_seed(0)
    turn = rotary_table(20, 8)
    query, key = (rotate(torch.randn(8).expand(1, 1, 20, 8), turn)[0, 0] for _ in range(2))
    products = query @ key.T
    assert torch.allclose(products.diagonal(3), products[3, 0].new_full((17,), products[0, 3].item()), atol=1e-4)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_only_matrices_decay(name: str) -> None:
    model = GPT(Shape(layers=1, width=8, heads=2, context=12, vocabulary=256))
    groups = make_optimizer(name, [model], [], weight_decay=0.1).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {parameter.ndim for parameter in groups[0]["params"]} == {2}
    assert {parameter.ndim for parameter in groups[1]["params"]} == {1}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))

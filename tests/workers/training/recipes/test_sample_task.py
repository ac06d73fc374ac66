from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.workers.training.ranks import recipe_spec, tiny_spec, train_on
from tests.workers.training.recipes.tasks import QUANTITY, RESNET, TABLE, VIT
from trainyard.spec.sections.tasks import ImageClassifierTask
from workers.training.checkpoints.weights import CONFIG, WEIGHTS
from workers.training.recipes import Task, load_task, resnet, tabular, vit

CPU = torch.device("cpu")
TASKS = {"resnet": RESNET, "vit": VIT, "table": TABLE, "quantity": QUANTITY}


def task_of(name: str, seed: int = 1) -> Task:
    return load_task(recipe_spec(task=TASKS[name]).task, seed=seed, device=CPU)


@pytest.mark.parametrize("name", TASKS)
def test_rows_of_a_batch_do_not_depend_on_who_asks_for_them(name: str) -> None:
    task = task_of(name)
    inputs, targets = task.train_batch(slice(8, 16))
    later_inputs, later_targets = task.train_batch(slice(12, 16))
    assert torch.equal(inputs[4:], later_inputs) and torch.equal(targets[4:], later_targets)


def test_an_epoch_has_each_row_once_and_the_next_has_them_in_another_order() -> None:
    task = task_of("table")
    first, second = (
        task.train_batch(slice(epoch * task.num_train_rows, (epoch + 1) * task.num_train_rows))[0] for epoch in (0, 1)
    )
    assert not torch.equal(first, second)
    assert np.array_equal(*(np.unique(rows.numpy(), axis=0) for rows in (first, second)))


def test_accuracy_is_the_share_of_rows_whose_largest_output_is_their_class() -> None:
    task = task_of("resnet")
    outputs = torch.eye(10)[[3, 1, 4, 1]]
    assert task.measures == ("accuracy",)
    assert task.measure(outputs, torch.tensor([3, 1, 4, 2])).tolist() == [3.0]
    assert task.criterion(100 * outputs, torch.tensor([3, 1, 4, 1])) < 1e-6


def test_r2_is_1_for_the_truth_and_0_for_the_mean() -> None:
    task = task_of("quantity")
    _, targets = task.validation_batch(slice(0, task.num_validation_rows))
    assert task.measures == ("r2",)
    mean_r2 = [
        task.measure(outputs[:, None], targets).item() / task.num_validation_rows
        for outputs in (targets, targets.mean().expand_as(targets))
    ]
    assert mean_r2 == pytest.approx([1, 0], abs=1e-6)


def test_what_is_measured_in_parts_adds_up() -> None:
    task = task_of("quantity")
    _, targets = task.validation_batch(slice(0, task.num_validation_rows))
    outputs = targets[:, None] * 0.5 + 0.1
    parts = [task.measure(outputs[rows], targets[rows]) for rows in (slice(0, 7), slice(7, None))]
    torch.testing.assert_close(sum(parts), task.measure(outputs, targets))


def test_pixels_arrive_as_numbers_from_minus_1_to_1() -> None:
    inputs, targets = task_of("vit").train_batch(slice(0, 64))
    assert inputs.dtype == torch.float32 and inputs.shape == (64, 1, 8, 8)
    assert inputs.min() == -1 and inputs.max() == 1
    assert targets.dtype == torch.int64 and set(targets.tolist()) == set(range(10))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("num_parts", [2])
def test_what_flows_between_parts_has_the_shape_that_is_said(name: str, num_parts: int) -> None:
    task = task_of(name)
    hidden, _ = task.train_batch(slice(0, 3))
    for index in range(num_parts - 1):
        part = task.make_model()
        task.keep_part(part, index, num_parts)
        hidden = part(hidden)
        assert hidden.shape == task.hidden_shape(3, index, num_parts)


def rebuilt(document: dict[str, Any]) -> torch.nn.Module:
    """Return the model that ``model.json`` tells of, as a reader of the documentation would make it."""
    sizes = dict(document["model"])
    if document["recipe"] == "tabular":
        return tabular.MLP(tabular.Shape(**sizes))
    if sizes.pop("architecture") == "vit":
        return vit.ViT(vit.Shape(**sizes))
    return resnet.ResNet(resnet.Shape(**sizes))


@pytest.mark.parametrize("name", TASKS)
def test_weights_and_their_document_are_enough_to_build_the_model_again(tmp_path: Path, name: str) -> None:
    train_on(1, tiny_spec(steps=2, task=TASKS[name], validate_every_steps=0), TRAINYARD_OUTPUT=str(tmp_path))
    document = json.loads((tmp_path / CONFIG).read_text())
    model = rebuilt(document)
    model.load_state_dict(load_file(tmp_path / WEIGHTS))
    task = task_of(name)
    inputs, _ = task.validation_batch(slice(0, 5))
    outputs = model(inputs)
    assert outputs.any() and outputs.shape == (5, len(document["classes"]) or 1)
    assert document["recipe"] == TASKS[name]["recipe"] and document["data"]["digest"] == task.data_digest


def test_a_table_tells_its_classes_by_their_names() -> None:
    assert task_of("table").describe()["classes"] == ["benign", "malignant"]


def test_an_image_model_that_cannot_be_is_refused_by_its_field() -> None:
    task = ImageClassifierTask.model_validate({"recipe": "image-classifier", "model": {**VIT["model"], "patch": 3}})
    with pytest.raises(ValueError, match=r"task\.model\.patch is 3, which does not divide the 8 pixels"):
        load_task(task, seed=0, device=CPU)


def test_a_resnet_says_that_tensor_ranks_cannot_cut_it() -> None:
    with pytest.raises(ValueError, match=r"parallel\.tensor goes with task\.model\.architecture vit only"):
        task_of("resnet").tensor_plan()

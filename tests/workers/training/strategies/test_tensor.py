from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.training.messages import messages
from tests.workers.training.parity import distance
from tests.workers.training.ranks import tiny_spec, train_on
from workers.training.strategies.tensor import refuse_empty_pieces

TOLERANCE = 1e-5  # relative; measured 7e-7
CONTEXT, WIDTH, VOCABULARY = 16, 16, 256
ROWS = 4  # of a micro-batch of `split`

# What two ranks learn. More of them and the other axes are in tests/parity.


def leave_gains_unsummed() -> None:
    """Let each rank change the norms' gains by its own part of the sequence."""
    from torch.distributed.tensor import DTensor

    from workers.training.strategies import tensor

    def unsummed(parameters: Any) -> None:
        for parameter in parameters:
            if parameter.grad.placements[0].is_partial():
                own = parameter.grad.to_local()
                parameter.grad = DTensor.from_local(own, parameter.device_mesh, parameter.placements)

    tensor.sum_gradients = unsummed


def normalize_over_own_classes() -> None:
    """Leave out what the softmax sums over ranks."""
    from workers.training.recipes import language_model

    plain = language_model.dist
    unsent = SimpleNamespace(all_reduce=lambda *arguments, **named: None, ReduceOp=plain.ReduceOp)
    language_model.dist = unsent  # type: ignore[assignment]


def forget_a_module_in_the_plan() -> None:
    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.tensor_plan

    def incomplete(self: LanguageModelTask) -> Any:
        plan = plain(self)
        del plan["layers.*.mlp_norm"]
        return plan

    LanguageModelTask.tensor_plan = incomplete  # type: ignore[method-assign]


def split(**changes: Any) -> dict[str, Any]:
    """A spec for two ranks and two micro-batches."""
    return tiny_spec(world=2, parallel={"tensor": 2}, steps=2, batch_size=2 * ROWS, accumulate=2, **changes)


def test_two_ranks_learn_what_one_process_learns() -> None:
    found = distance(2, {"tensor": 2}, steps=6, accumulate=2, gradient_clip=0.25)
    assert max(found) < TOLERANCE, found


@pytest.mark.extended
def test_parity_goes_red_when_the_gains_of_the_norms_are_not_summed() -> None:
    found = distance(2, {"tensor": 2}, steps=6, accumulate=2, setup=leave_gains_unsummed)
    assert found.gradient > 0.1 and found.loss > 2 * TOLERANCE, found


@pytest.mark.extended
def test_parity_goes_red_when_the_loss_knows_its_own_classes_only() -> None:
    found = distance(2, {"tensor": 2}, steps=6, accumulate=2, setup=normalize_over_own_classes)
    assert found.gradient > 0.1 and found.loss > 0.01, found


def test_logits_are_never_gathered_and_the_sequence_travels_in_pieces() -> None:
    sent = messages(2, split())
    assert max(message.size for message in sent) < ROWS * CONTEXT * VOCABULARY // 2
    tokens = ROWS * CONTEXT
    # The loss sends a maximum and two sums for each token, once in each of two micro-batches.
    assert [message.size for message in sent].count(tokens) == 2
    assert [message.size for message in sent].count(2 * tokens) == 2
    # Of the hidden states a rank puts in its own half of the sequence, and gets the others'.
    assert {message.size for message in sent if message.kind == "all_gather"} == {tokens * WIDTH // 2}


def test_gains_are_summed_in_one_message_a_step() -> None:
    layers = 2
    assert [message.size for message in messages(2, split())].count((2 * layers + 1) * WIDTH) == 1


def test_a_parameter_that_the_plan_forgets_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"layers\.0\.mlp_norm\.weight is not in the recipe's tensor plan"):
        train_on(2, split(), setup=forget_a_module_in_the_plan)


def test_ranks_without_a_piece_are_refused_with_the_numbers() -> None:
    refuse_empty_pieces("head.weight", 256, 86)  # 85 of 3 rows and one of 1
    with pytest.raises(ValueError, match=r"parallel\.tensor is 100, but head\.weight has 256 rows .* fill 86 ranks"):
        refuse_empty_pieces("head.weight", 256, 100)

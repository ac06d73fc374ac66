"""The tables of what goes together, entry by entry."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tests.printed_pages.spec import is_product
from trainyard.spec import RecipeSpec, SpecError, form_fields, merge, parse_spec
from trainyard.spec.strategies.mesh import AXES
from trainyard.spec.strategies.products import LIMITS, field_of

RECIPE: dict[str, Any] = {"name": "x", "task": {"recipe": "language-model"}}
ALL = [frozenset(some) for size in range(len(AXES) + 1) for some in combinations(AXES, size)]
SYNCHRONOUS = [axes for axes in ALL if is_product(axes)]


def document(axes: frozenset[str], changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A spec whose degree is 2 on each of ``axes``."""
    degrees = {field_of(axis): 2 for axis in axes}
    return merge(RECIPE, {"resources.nodes": 2 ** len(axes), **degrees, **(changes or {})})


def refusals(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(document)
    return {problem.path: problem.message for problem in caught.value.errors}


@pytest.mark.parametrize("axes", sorted(SYNCHRONOUS, key=sorted), ids=lambda axes: "x".join(sorted(axes)) or "one")
def test_each_product_of_the_table_is_accepted(axes: frozenset[str]) -> None:
    spec = parse_spec(document(axes))
    assert isinstance(spec, RecipeSpec)
    assert spec.mesh().used == {axis: 2 for axis in AXES if axis in axes}


def test_every_product_of_the_axes_has_a_row_or_is_refused() -> None:
    assert set(ALL) > set(SYNCHRONOUS)
    for axes in set(ALL) - set(SYNCHRONOUS):
        assert {"context", "tensor"} <= axes
        message = refusals(document(axes))["parallel.context"]
        assert message.startswith("2 goes with") and "tensor ranks cut the same sequence" in message
        assert message.endswith("not with parallel.tensor 2")


VIT: dict[str, Any] = {"recipe": "image-classifier", "model": {"architecture": "vit"}}


@pytest.mark.parametrize("task", [VIT, {"recipe": "image-classifier"}, {"recipe": "tabular"}], ids=str)
def test_each_recipe_has_every_product_but_of_what_it_cannot_cut(task: dict[str, Any]) -> None:
    for axes in SYNCHRONOUS:
        tried = document(axes, {"task": task})
        refused = {"parallel.tensor"} if "tensor" in axes and task == {"recipe": "image-classifier"} else set()
        refused |= {"parallel.context"} & {field_of(axis) for axis in axes}
        if refused:
            assert refusals(tried).keys() == refused
        else:
            assert parse_spec(tried).resolved()


@pytest.mark.parametrize(("path", "value"), LIMITS)
def test_a_setting_goes_with_the_axes_of_its_row_and_with_no_other(path: str, value: str) -> None:
    limit = LIMITS[path, value]
    for axes in SYNCHRONOUS:
        tried = document(axes, {path: value})
        if axes <= limit.axes and (limit.least_data == 1 or "data" in axes):
            assert parse_spec(tried).resolved()
            continue
        found = refusals(tried)
        assert found.keys() == {path} and found[path].startswith(f"{value} goes with "), found
        if not axes <= limit.axes:
            assert limit.why in found[path]
            assert all(f"{field_of(axis)} 2" in found[path] for axis in axes - limit.axes), found


@pytest.mark.parametrize(("path", "value"), [key for key, limit in LIMITS.items() if limit.least_data > 1])
def test_one_rank_has_nobody_to_agree_with(path: str, value: str) -> None:
    assert refusals(document(frozenset(), {path: value})) == {
        path: f"{value} goes with 2 copies of the model or more, not with a data degree of 1"
    }


@pytest.mark.parametrize("kind", ["local-sgd", "diloco", "parameter-server"])
@pytest.mark.parametrize(("path", "value"), [key for key, limit in LIMITS.items() if limit.only_every_step])
def test_what_all_ranks_agree_on_goes_with_no_kind_that_lets_them_go(path: str, value: str, kind: str) -> None:
    found = refusals(document(frozenset({"data"}), {path: value, "parallel.synchronization.kind": kind}))
    assert found.keys() == {path}
    assert "parallel.synchronization.kind every-step only" in found[path] and found[path].endswith(f"not with {kind}")


@pytest.mark.parametrize("compression", ["fp16", "bf16", "powersgd", "topk"])
@pytest.mark.parametrize(("path", "value"), [key for key, limit in LIMITS.items() if limit.only_uncompressed])
def test_what_weights_gradients_goes_with_no_compression(path: str, value: str, compression: str) -> None:
    found = refusals(document(frozenset({"data"}), {path: value, "parallel.compression": compression}))
    assert found.keys() == {path}
    assert "parallel.compression none only" in found[path] and found[path].endswith(f"not with {compression}")


def test_the_table_speaks_of_settings_that_there_are() -> None:
    choices = {info.path: info.choices for info in form_fields()}
    for path, value in LIMITS:
        assert value in choices[path]
    assert all(set(limit.axes) <= set(AXES) for limit in LIMITS.values())

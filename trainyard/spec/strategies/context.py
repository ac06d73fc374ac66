"""Ranks that share the tokens of each sequence: context parallelism by ring attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trainyard.spec.problems import Problem
from trainyard.spec.sections.tasks import GPTModel
from trainyard.spec.strategies.messages import SMALL, Message
from trainyard.spec.strategies.strategy import Axis, Limit, Place, Strategy, some

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Model, Section, Stage
    from trainyard.spec.strategies.mesh import Mesh

PATH = "parallel.context"


class Context(Strategy):
    """Liu et al. 2023, "Ring Attention with Blockwise Transformers"; the sequence is cut in a zigzag, so that causal
    masks leave every rank as much to compute."""

    name = "context"
    place = Place.CUT
    reason = "before all that wraps a block: it changes what the block's attention computes, and no weight"
    axis = Axis(
        "context",
        PATH,
        "range",
        alone="context parallel (ring attention)",
        clause="whose sequences context ranks share (ring attention)",
        order=2,  # beside data: gradients are averaged over both at once
        has_copies=True,
        shares_rows=True,
        is_rare=True,
    )
    limit = Limit(frozenset({"data", "shard", "pipeline"}), "tensor ranks cut the same sequence in another way")

    def problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        degree, model = spec.parallel.context, spec.task.model
        if degree == 1:
            return
        if not isinstance(model, GPTModel):
            yield Problem(
                PATH, f"{degree} goes with the recipe language-model only: rows of no other are sequences; accepted: 1"
            )
            return
        if model.context % (2 * degree):
            accepted = [one for one in range(1, model.context // 2 + 1) if one == 1 or model.context % (2 * one) == 0]
            yield Problem(
                PATH,
                f"{degree} does not divide the {model.context} tokens of task.model.context into two equal ranges for "
                f"each rank; accepted: {some(accepted)}",
            )
        if spec.train.compile:
            yield Problem(
                "train.compile",
                f"true makes one piece of each block, which {PATH} {degree} does not go with: ranks exchange keys and "
                "values in its midst; accepted here: false",
            )

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        return f"{degree:,} ranks share the tokens of each sequence; keys and values go round them in a ring."

    def narrowed(self, model: Model, mesh: Mesh) -> Model:
        """Each rank has its part of every sequence: as long a sequence, for all but attention."""
        return replace(model, context=_context(model) // mesh.degree("context"))  # type: ignore[type-var]

    def section(self, section: Section, model: Model, layout: Layout) -> Section:
        """A rank's queries meet the keys of all ranks. Those of one other, which came round the ring, are at hand."""
        degree = layout.mesh.degree("context")
        works = [one._replace(size=one.size * degree) if one.kind == "attention" else one for one in section.works]
        travelling = 2 * _travelling_bytes(model, layout) if section.entry else 0.0  # what is sent and what arrives
        return replace(section, works=works, transient=section.transient + travelling)

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        """Keys and values of a layer go to the next rank, degree - 1 times forward and as often backward, with their
        gradients of whole numbers, which go once more, to where they belong."""
        degree = layout.mesh.degree("context")
        model = spec.task.model
        assert isinstance(model, GPTModel)
        kv_heads = model.heads if model.kv_heads == "auto" else int(model.kv_heads)
        numbers = 2 * layout.at.rows * model.context // degree * (model.width // model.heads * kv_heads)
        layers = sum(count for section, count in stage.counted() if section.entry)
        small, whole = SMALL[spec.train.precision], SMALL["fp32"]
        sent = numbers * (2 * (degree - 1) * small + degree * whole)
        times = layout.passes * layers
        return [Message("send-receive", degree, times * sent, times * (3 * degree - 2))]


def _context(model: Model) -> int:
    found: int = model.context  # type: ignore[attr-defined]  # refused for any other model
    return found


def _travelling_bytes(model: Model, layout: Layout) -> float:
    """Return the keys and values of a rank's part of the sequences, for the narrowed ``model``."""
    kv_width = model.width // model.heads * model.kv_heads  # type: ignore[attr-defined]
    return float(2 * layout.at.rows * _context(model) * kv_width * SMALL[layout.precision])

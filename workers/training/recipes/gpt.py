"""A small decoder-only transformer: pre-norm, rotary positions, grouped queries, no biases, no dropout.

Sources: Vaswani et al. 2017 (attention), Su et al. 2021 (rotary positions, equation 34), Ainslie et al. 2023 (grouped
queries, section 2.2), So et al. 2021 (squared ReLU).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from workers.training.recipes.parts import Chain, Norm, initialize, refuse_sizes

OPTIMIZERS = ("adamw", "sgd")  # for which the table has a column


def rate_scale(parameter: str, ratio: float, optimizer: str) -> float:
    """Return by what the learning rate of a parameter is multiplied, by its name in the whole model."""
    if parameter == "head.weight":
        return 1 / ratio
    is_in_block = not parameter.startswith("embedding.") and "norm" not in parameter
    if optimizer == "sgd":
        return 1.0 if is_in_block else ratio
    return 1 / ratio if is_in_block else 1.0


ROTARY_BASE = 10_000.0
MLP_RATIO = 2  # at a few hundred steps, 4 learns no better and takes a third more time


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model; ``kv_heads`` None gives each head keys and values of its own. Raises ValueError, naming the
    field of the spec, for sizes that do not fit together."""

    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    kv_heads: int | None = None
    base_width: int | None = None  # at which the learning rate was found: see ``width_transfer``

    def __post_init__(self) -> None:
        refuse_sizes(self, "layers", "width", "heads", "context", "base_width")
        if self.width % self.heads:
            raise ValueError(f"task.model.heads is {self.heads}, which does not divide task.model.width {self.width}")
        if self.head_width % 2:
            raise ValueError(
                f"task.model.heads is {self.heads}: width {self.width} / heads {self.heads} = {self.head_width}, "
                "and rotary positions turn pairs, so it must be even"
            )
        if self.num_kv_heads < 1 or self.heads % self.num_kv_heads:
            raise ValueError(
                f"task.model.kv_heads is {self.num_kv_heads}, which does not divide task.model.heads {self.heads}"
            )

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def num_kv_heads(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def width_ratio(self) -> float:
        return 1.0 if self.base_width is None else self.width / self.base_width


class Projections(nn.Module):
    """Projections of an attention. They are apart, so that each can be cut by heads on its own; heads of keys and
    values are fewer where groups of queries share one."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, heads * head_width) -> (batch, heads, time, head_width)"""
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)


class Attention(Projections):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.width, shape.heads, shape.num_kv_heads)
        self.score_scale = 1 / math.sqrt(shape.width_ratio)  # beside the root of a head's width

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Map (batch, time, width) to the same shape; ``turn`` is what ``rotary_table`` made."""
        query = rotate(self._heads(self.query(x)), turn)
        key = rotate(self._heads(self.key(x)), turn)
        value = self._heads(self.value(x))
        if self.score_scale != 1.0:
            query = query * self.score_scale
        output: torch.Tensor = self.output(self.attend(query, key, value).transpose(1, 2).flatten(2))
        return output

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return what each query finds in the tokens up to its own. Ranks that share a sequence replace this."""
        key, value = (for_all(one, query.shape[1]) for one in (key, value))
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def for_all(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """(batch, key heads, time, head_width) -> (batch, heads, time, head_width), each for its group of queries."""
    # Repeated, which every kernel of every device takes; the flag of the attention saves no time on a CPU.
    return x if x.shape[1] == num_heads else x.repeat_interleave(num_heads // x.shape[1], dim=1)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, MLP_RATIO * width, bias=False)
        self.down = nn.Linear(MLP_RATIO * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.up(x))
        # Not square(): its backward computes a power, ten times slower on a CPU.
        output: torch.Tensor = self.down(hidden * hidden)
        return output


class Block(nn.Module):
    """Attention, which takes what is ``beside`` too, and the MLP: each behind a norm, added to what comes in."""

    def __init__(self, attention: nn.Module, width: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width, bias=False)
        self.attention = attention
        self.mlp_norm = Norm(width, bias=False)
        self.mlp = FeedForward(width)

    def forward(self, x: torch.Tensor, *beside: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), *beside)
        x = x + self.mlp(self.mlp_norm(x))
        return x


class GPT(Chain):
    """Predicts the next token: tokens (batch, time) int64 -> logits (batch, time, vocabulary).

    A part of it, as a pipeline stage holds one (``parts.py``), takes and gives what flows between parts: (batch,
    time, width). Parts keep the names of the whole.
    """

    turn: torch.Tensor
    embedding: nn.Embedding | None
    norm: nn.LayerNorm | None
    head: nn.Linear | None

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleDict({str(index): Block(Attention(shape), shape.width) for index in range(shape.layers)})
        self.norm = Norm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.register_buffer("turn", rotary_table(shape.context, shape.head_width), persistent=False)
        zeros = ("attention.output.weight", "mlp.down.weight", "head.weight")
        initialize(self, zeros, lambda fan_in: 1.0 / math.sqrt(fan_in), normal=("embedding.weight",))

    def beside(self) -> tuple[torch.Tensor, ...]:
        return (self.turn,)


def rotary_table(context: int, head_width: int) -> torch.Tensor:
    """Return cosines and sines of each position's angles, shape (2, context, head_width / 2)."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
    angles = torch.outer(torch.arange(context, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Turn each pair of (batch, heads, time, head_width) by the angle of its position; ``turn`` has as many or more."""
    cos, sin = turn[:, : x.shape[-2]]
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)

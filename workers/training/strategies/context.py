"""Context parallelism: the ranks of a group share the tokens of every sequence, and keys and values go round a ring.

Each rank embeds, normalises and multiplies its own tokens only. Attention needs all keys before a query: each rank
attends with its queries to the keys that it has, sends those to the next rank and takes the ones before, until every
query has met every key. Partial results are merged by the logarithms of their softmax's sums, exactly.

Sources: Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context", section 3; the merging
is that of Dao et al. 2022, "FlashAttention", section 3.1. Under a causal mask the last rank would compute most, so the
sequence is cut into twice as many ranges as there are ranks, and rank r has the ranges r and 2n - 1 - r: a zigzag
(Brandon et al. 2023, "Striped Attention", balance the same work in another way). Then no step of the ring but the
first needs a mask: of the keys of a rank before, all queries see the first half and none the second, and all keys of a
rank behind are seen by the second half of the queries and by none of the first.

torch's own, ``torch.distributed.tensor.experimental.context_parallel``, replaces kernels of CUDA only.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from workers.training.assembly import Assembly
from workers.training.data.batches.order import Batch, Rows
from workers.training.recipes import Task
from workers.training.recipes.gpt import GPT, Attention, Block, for_all

aten = torch.ops.aten


def apply(assembly: Assembly) -> None:
    """Let this rank read its tokens of every row, and its attention meet the keys of all."""
    degree = assembly.mesh.degree("context")
    if degree == 1:
        return
    group = assembly.group("context").get_group()
    positions = positions_of(group.rank(), degree, assembly.task.units_per_row)
    assembly.task = CutTask(assembly.task, positions, degree)  # it passes on the rest
    for part in assembly.parts:
        share_sequence(part, positions.to(assembly.device), partial(ring_attention, group=group))


def positions_of(rank: int, degree: int, length: int) -> torch.Tensor:
    """Return which of ``length`` tokens ``rank`` has: two ranges of a zigzag, in rising order. Raises ValueError where
    they would not be equal."""
    if length % (2 * degree):
        raise ValueError(
            f"parallel.context is {degree}, and does not divide task.model.context {length} into two ranges a rank"
        )
    ranges = torch.arange(length).chunk(2 * degree)
    return torch.cat((ranges[rank], ranges[2 * degree - 1 - rank]))


def share_sequence(part: nn.Module, positions: torch.Tensor, attend: Callable[..., torch.Tensor]) -> None:
    """Give a part of a model the rotary angles of this rank's tokens, and the attention over all."""
    assert isinstance(part, GPT)  # no other is in the rules
    turn = part.turn[:, positions]
    del part.turn
    part.turn = turn  # no buffer any more: DDP would send that of the first rank to all
    for block in part.layers.values():
        assert isinstance(block, Block) and isinstance(block.attention, Attention)
        block.attention.attend = attend  # type: ignore[method-assign]


class CutTask:
    """A task of which this rank sees the tokens at ``positions`` alone. All else is the task's own."""

    def __init__(self, task: Task, positions: torch.Tensor, degree: int) -> None:
        self._task, self._positions, self._degree = task, positions, degree

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def train_batch(self, positions: slice | Rows) -> Batch:
        return self._cut(self._task.train_batch(positions))

    def validation_batch(self, rows: slice) -> Batch:
        return self._cut(self._task.validation_batch(rows))

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        rows, sequence, *rest = self._task.hidden_shape(num_rows, index, num_parts)
        return torch.Size((rows, sequence // self._degree, *rest))

    def _cut(self, batch: Batch) -> Batch:
        inputs, targets = batch
        positions = self._positions.to(inputs.device)
        return inputs[:, positions], targets[:, positions]


def ring_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, group: dist.ProcessGroup
) -> torch.Tensor:
    """Return causal attention over the tokens of all ranks of ``group``.

    ``query`` is (batch, heads, time, head width) of this rank's tokens; ``key`` and ``value`` may have fewer heads,
    each for a group of queries. They travel as they are, and in the type that autocast computes in.
    """
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    mixed: torch.Tensor = _RingAttention.apply(query, key, value, group)  # type: ignore[no-untyped-call]
    return mixed


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, group: dist.ProcessGroup
    ) -> torch.Tensor:
        travelling = torch.stack((key, value))
        output = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
        sums = torch.full(query.shape[:-1], -torch.inf, dtype=torch.float32, device=query.device)
        for turn in range(group.size()):
            arriving = _pass_on(travelling, group) if turn + 1 < group.size() else None
            queries, keys, is_causal = _visible(turn, group, query.shape[2])
            seen_keys, seen_values = travelling[:, :, :, keys].unbind()
            found, found_sums = _attend(query[:, :, queries], seen_keys, seen_values, is_causal)
            _merge(output[:, :, queries], sums[:, :, queries], found, found_sums)
            if arriving is not None:
                travelling = arriving()
        output = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, output, sums)
        ctx.group = group
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """Go round once more. The gradients of keys and values travel with them, and one step more, back home."""
        query, key, value, output, sums = ctx.saved_tensors
        group, (gradient,) = ctx.group, gradients
        travelling = torch.stack((key, value))
        owed = torch.zeros(travelling.shape, dtype=torch.float32, device=key.device)
        own = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
        for turn in range(group.size()):
            arriving = _pass_on(travelling, group) if turn + 1 < group.size() else None
            queries, keys, is_causal = _visible(turn, group, query.shape[2])
            seen_keys, seen_values = travelling[:, :, :, keys].unbind()
            asked, asking, given, totals = (one[:, :, queries] for one in (gradient, query, output, sums))
            of_query, of_key, of_value = _attend_backward(
                asked, asking, seen_keys, seen_values, given, totals, is_causal
            )
            own[:, :, queries] += of_query
            owed[0, :, :, keys] += of_key
            owed[1, :, :, keys] += of_value
            owed = _pass_on(owed, group)()
            if arriving is not None:
                travelling = arriving()
        return own.to(query.dtype), owed[0].to(key.dtype), owed[1].to(value.dtype), None


def _visible(turn: int, group: dist.ProcessGroup, length: int) -> tuple[slice, slice, bool]:
    """Return which of this rank's queries see which of the keys that have come in that turn, and whether a causal mask
    is between them."""
    source, half = (group.rank() - turn) % group.size(), length // 2
    if source == group.rank():
        return slice(0, length), slice(0, length), True
    if source < group.rank():
        return slice(0, length), slice(0, half), False
    return slice(half, length), slice(0, length), False


def _pass_on(tensor: torch.Tensor, group: dist.ProcessGroup) -> Callable[[], torch.Tensor]:
    """Start to send ``tensor`` to the next rank of the ring; return what waits for that of the rank before."""
    rank, size = group.rank(), group.size()
    tensor = tensor.contiguous()
    arriving = torch.empty_like(tensor)
    sending = dist.P2POp(dist.isend, tensor, group=group, group_peer=(rank + 1) % size)
    receiving = dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - 1) % size)
    works = dist.batch_isend_irecv([sending, receiving])

    def wait() -> torch.Tensor:
        for work in works:
            work.wait()
        return arriving

    return wait


def _merge(output: torch.Tensor, sums: torch.Tensor, found: torch.Tensor, found_sums: torch.Tensor) -> None:
    """Merge, in place, what more keys have given into what was there; ``sums`` are logarithms of the softmax's sums."""
    total = torch.logaddexp(sums, found_sums)
    output.mul_((sums - total).exp()[..., None]).add_(found.float() * (found_sums - total).exp()[..., None])
    sums.copy_(total)


def _summed(gradient: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Sum what the queries of each group ask of their key."""
    rows, heads, *rest = gradient.shape
    return gradient.float().view(rows, num_heads, heads // num_heads, *rest).sum(2)


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention over these keys alone and the logarithms of its sums, (batch, heads, time)."""
    key, value = (for_all(one, query.shape[1]) for one in (key, value))
    if _has_kernel(query):
        output, sums = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal)
        return output, sums
    scores = _scores(query, key, is_causal)
    sums = scores.logsumexp(-1)
    return (scores - sums[..., None]).exp().to(value.dtype) @ value, sums


def _attend_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    sums: torch.Tensor,
    is_causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the parts of the gradients that go through these keys. ``output`` and ``sums`` are those over all keys,
    so that the weights computed again are those of the whole softmax (Dao et al. 2022, appendix B.4)."""
    num_heads = key.shape[1]
    key, value = (for_all(one, query.shape[1]) for one in (key, value))
    if _has_kernel(query):
        of_query, of_key, of_value = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, key, value, output, sums, 0.0, is_causal
        )
    else:
        weights = (_scores(query, key, is_causal) - sums[..., None]).exp()
        through = (gradient.float() * output.float()).sum(-1, keepdim=True)
        of_scores = weights * ((gradient @ value.mT).float() - through) * query.shape[-1] ** -0.5
        of_query, of_key = of_scores.to(key.dtype) @ key, of_scores.to(query.dtype).mT @ query
        of_value = weights.to(gradient.dtype).mT @ gradient
    return of_query.float(), _summed(of_key, num_heads), _summed(of_value, num_heads)


def _has_kernel(query: torch.Tensor) -> bool:
    """Return whether torch has a kernel for this device that gives the sums, too, whatever the masks."""
    return query.device.type == "cpu"


def _scores(query: torch.Tensor, key: torch.Tensor, is_causal: bool) -> torch.Tensor:
    scores: torch.Tensor = (query @ key.mT).float() * query.shape[-1] ** -0.5
    if is_causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores

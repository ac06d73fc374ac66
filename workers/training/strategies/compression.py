"""Gradients sent in fewer bytes: halved to 16 bits, or as factors of low rank (PowerSGD).

DDP hands each bucket of gradients to a hook as soon as backward has filled it. A bucket is sent in one or two legs. Its
first leg starts at once, while backward continues; the others wait for the last bucket, so that all ranks have the same
order of collectives. A hook that started its second leg when its first arrives would mix them up.
"""

# Without `from __future__ import annotations`: DDP compares the annotations of its hook, and not as strings.

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from workers.training.assembly import Assembly
from workers.training.measuring.collectives import ring_bytes
from workers.training.optimizing.numerics import Precision
from workers.training.strategies.synchronization.protocol import EveryStep

RANK = 4  # of PowerSGD's factors: Vogels et al. find no loss of quality from 2 to 4 on, depending on the model
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
Journey = Iterator[dist.Work]  # what a bucket has sent, leg by leg; asked for the next once that has arrived


class Compression:
    """The averaging of gradients over all ranks, bucket by bucket."""

    def __init__(self) -> None:
        self.bytes_sent = 0  # by this rank, since it started
        self._world_size = dist.get_world_size()
        self._legs: list[tuple[Journey, dist.Work]] = []  # of each bucket, the one that it is on
        self._arrivals: list[tuple[torch.futures.Future[torch.Tensor], torch.Tensor]] = []
        self._kept: dict[str, torch.Tensor] = {}  # this rank's own, from step to step
        self._is_loaded = False

    def attach(self, replica: DistributedDataParallel) -> None:
        replica.register_comm_hook(self, Compression.reduce)

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Send ``bucket`` off. Its gradients are the mean over the ranks when the future has come."""
        if bucket.index() == 0:  # what a failed backward pass has left is nobody's any more
            self._legs.clear()
            self._arrivals.clear()
        buffer = bucket.buffer()
        journey = self._travel(bucket)
        self._legs.append((journey, next(journey)))
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future(
            devices=[buffer.device] if buffer.device.type == "cuda" else None
        )
        self._arrivals.append((future, buffer))
        if bucket.is_last():
            self._arrive()
        return future

    def forget(self) -> None:
        """Drop what earlier passes have left, but for what was loaded since."""
        if not self._is_loaded:
            self._kept.clear()

    def state(self) -> dict[str, torch.Tensor]:
        """Return what the next step needs of this one, by name: this rank's own tensors."""
        return dict(self._kept)

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take back what ``state`` gave on this rank."""
        self._kept |= {name: tensor.clone() for name, tensor in state.items()}
        self._is_loaded = True

    def _travel(self, bucket: GradBucket) -> Journey:
        raise NotImplementedError

    def _send(self, tensor: torch.Tensor) -> dist.Work:
        """Start to sum ``tensor`` over the ranks, in place."""
        self.bytes_sent += ring_bytes(tensor.numel() * tensor.element_size(), self._world_size)
        work: dist.Work = dist.all_reduce(tensor, async_op=True)
        return work

    def _arrive(self) -> None:
        legs, arrivals = self._legs, self._arrivals
        self._legs, self._arrivals = [], []
        while legs:  # as many rounds as the longest journey has legs
            following = []
            for journey, work in legs:
                work.wait()
                if (started := next(journey, None)) is not None:
                    following.append((journey, started))
            legs = following
        for future, buffer in arrivals:
            future.set_result(buffer)


class Halved(Compression):
    """Compression to 16 bits, in which numbers travel and are summed: float16 keeps 11 significant bits of those from
    6e-8 to 65504, bfloat16 keeps 8 of any. Nothing makes up for what rounding loses."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def _travel(self, bucket: GradBucket) -> Journey:
        buffer = bucket.buffer()
        small = (buffer / self._world_size).to(self._dtype)  # divided first: a sum may be beyond float16
        yield self._send(small)
        buffer.copy_(small)


class PowerSGD(Compression):
    """Matrices travel as two factors of rank RANK; vectors, and matrices that this would not shrink, as they are.

    Source: Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
    algorithm 1, with the error feedback of algorithm 2. For a gradient M (n x m) of which this rank has its own, and
    the Q (m x RANK) that the last step has left (warm start):

        M += residual;  P = mean of M Q over ranks, made orthonormal;  Q_own = M' P;  residual = M - P Q_own'
        Q = mean of Q_own over ranks;  the gradient of all is P Q'

    The mean of all residuals and the gradient of all is the mean of all M: nothing is lost, it only comes later. The
    residuals take as much memory as the matrices' gradients, and are each rank's own.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._names: dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}

    def _travel(self, bucket: GradBucket) -> Journey:
        factored, others = self._sort(bucket)
        for each in factored:
            each.matrix.add_(each.residual)
        left = [each.matrix @ each.query for each in factored]
        flat = torch.cat([one.reshape(-1) for one in (*left, *others)])
        yield self._send(flat)
        cut(flat.div_(self._world_size), [*left, *others])
        if not factored:
            return
        # By Householder: where a gradient is zero, as the first of some layers are, columns are orthonormal all the
        # same, and the next gradient finds its own.
        left = [torch.linalg.qr(one).Q for one in left]
        right = [each.matrix.T @ one for each, one in zip(factored, left, strict=True)]
        for each, one, own in zip(factored, left, right, strict=True):
            torch.addmm(each.matrix, one, own.T, alpha=-1, out=each.residual)
        flat = torch.cat([one.reshape(-1) for one in right])
        yield self._send(flat)
        cut(flat.div_(self._world_size), [each.query for each in factored])
        for each, one in zip(factored, left, strict=True):
            torch.mm(one, each.query.T, out=each.matrix)

    def _sort(self, bucket: GradBucket) -> "tuple[list[_Factored], list[torch.Tensor]]":
        """Return the gradients that travel as factors and those that do not; all are views of the bucket."""
        factored, others = [], []
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            matrix = gradient.view(len(gradient), -1) if gradient.ndim >= 2 else gradient
            if matrix.ndim == 2 and RANK * sum(matrix.shape) < matrix.numel():
                factored.append(self._factored(self._names[parameter], matrix))
            else:
                others.append(gradient)
        return factored, others

    def _factored(self, name: str, matrix: torch.Tensor) -> "_Factored":
        query, residual = f"query/{name}", f"residual/{name}"
        if query not in self._kept:
            # Drawn from the name, so that all ranks begin with the same, and torch's own random state is left alone.
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            self._kept[query] = torch.randn(matrix.shape[1], RANK, generator=generator).to(matrix.device, matrix.dtype)
        if residual not in self._kept:
            self._kept[residual] = torch.zeros_like(matrix)
        return _Factored(matrix, self._kept[query], self._kept[residual])


class _Factored(NamedTuple):
    """A gradient (n x m, a view of its bucket), its Q of the last step (m x RANK) and its residual (n x m)."""

    matrix: torch.Tensor
    query: torch.Tensor
    residual: torch.Tensor


def cut(flat: torch.Tensor, tensors: Iterable[torch.Tensor]) -> None:
    """Fill ``tensors`` with what lies in ``flat`` one behind the other."""
    tensors = list(tensors)
    for tensor, piece in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))


def apply(assembly: Assembly) -> None:
    name = assembly.parallel.compression
    if name == "powersgd":
        assembly.compression = PowerSGD(assembly.parts[0])
    elif name in DTYPES:
        assembly.compression = Halved(DTYPES[name])


class CompressedStep(EveryStep):
    """Every step reduces gradients, in fewer bytes. What a compression carries from step to step is each rank's own:
    it is kept with a checkpoint, and starts anew under another mesh."""

    def __init__(self, optimizer: torch.optim.Optimizer, precision: Precision, compression: Compression) -> None:
        super().__init__(optimizer, precision)
        self._compression = compression
        self._has_begun = False

    def begin(self, step: int) -> None:
        if not self._has_begun:  # the throwaway passes, and those that tried a batch size, must leave no trace
            self._compression.forget()
            self._bytes_reported = self._compression.bytes_sent
            self._has_begun = True

    def measured(self) -> Mapping[str, float]:
        self.bytes_sent = self._compression.bytes_sent
        return {"rank/sent_bytes": self.newly_sent()}

    def state(self) -> dict[str, torch.Tensor]:
        return self._compression.state()

    def load(self, state: dict[str, torch.Tensor]) -> None:
        self._compression.load(state)
